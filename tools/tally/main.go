package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"regexp"
	"strings"
)

func main() {
	ledger := flag.String("ledger", "", "append one line a test to this file")
	maySkip := flag.String("may-skip", "^TestOracle", "names of the tests that may be skipped")
	flag.Parse()
	if err := count(os.Stdin, os.Stdout, *ledger, *maySkip); err != nil {
		fmt.Fprintln(os.Stderr, "tally:", err)
		os.Exit(1)
	}
}

// count reads all events, writes the ledger and says what failed. A stream
// without an event is an error: nothing was tested.
func count(in io.Reader, out io.Writer, ledger, maySkip string) error {
	pattern, err := regexp.Compile(maySkip)
	if err != nil {
		return err
	}
	t := newTally(out, pattern)
	if err := t.read(in); err != nil {
		return err
	}
	if t.seen == 0 {
		return errors.New("no test events came in")
	}
	if err := t.writeLedger(ledger); err != nil {
		return err
	}
	fmt.Fprintf(out, "tests: %d passed, %d failed, %d skipped\n", t.count(passed), t.count(failed), t.count(skipped))
	if n := t.count(failed); n > 0 {
		return fmt.Errorf("%d failed", n)
	}
	return nil
}

func (t *tally) writeLedger(path string) error {
	if path == "" {
		return nil
	}
	var b strings.Builder
	for _, e := range t.entries {
		fmt.Fprintf(&b, "%s\t%s\t%s\n", e.outcome, e.name, e.reason)
	}
	f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	if _, err := f.WriteString(b.String()); err != nil {
		f.Close()
		return err
	}
	return f.Close()
}
