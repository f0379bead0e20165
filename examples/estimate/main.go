// Command estimate says how many bytes loading a model needs at least.
package main

import (
	"context"
	"log"
	"os"

	"floodmark"
)

func main() {
	p, err := floodmark.Estimate(context.Background(), floodmark.Request{ModelPath: os.Args[1]})
	if err != nil {
		log.Fatal(err)
	}
	log.Printf("%s needs at least %d bytes to load", os.Args[1], p.Accounts()[0].Phases[0].Peak("process").Figure.Low())
}
