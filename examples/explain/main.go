// Command explain prints the peaks that evidence of any kind shows.
package main

import (
	"fmt"
	"log"
	"os"

	"floodmark"
)

func main() {
	evidence, err := floodmark.Open(os.Args[1])
	if err != nil {
		log.Fatal(err)
	}
	for _, a := range evidence.Accounts() {
		for _, p := range a.Phases {
			fmt.Printf("device %d, %s: requested %d bytes\n", a.Device, p.ID, p.Peak("requested").Figure.Low())
		}
	}
}
