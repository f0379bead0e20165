// Command explain prints what evidence of any kind says, as JSON.
package main

import (
	"log"
	"os"

	"floodmark"
	"floodmark/record"
)

func main() {
	evidence, err := floodmark.Open(os.Args[1])
	if err != nil {
		log.Fatal(err)
	}
	record.Encode(os.Stdout, evidence.Record(record.Tool{}))
}
