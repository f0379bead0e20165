// Command estimate prints what loading a model needs.
package main

import (
	"context"
	"fmt"
	"log"
	"os"

	"floodmark"
)

func main() {
	m, err := floodmark.LoadModel(os.Args[1])
	if err != nil {
		log.Fatal(err)
	}
	p, err := floodmark.Estimate(context.Background(), floodmark.Request{Model: m})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(m.Parameters().Low(), "parameters,", p.Accounts()[0].Phases[0].Peak("requested").Figure.Low(), "bytes to load")
}
