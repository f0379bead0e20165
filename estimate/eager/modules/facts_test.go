package modules_test

import (
	"bufio"
	"compress/gzip"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// recordings is the folder of what PyTorch was seen to do on a CPU.
const recordings = "../../../testdata/eager"

// recorded is one run, in the layout that oracle/facts.py describes.
type recorded struct {
	family  string
	words   []string // conditions, as oracle/run takes them
	start   map[string]int64
	names   []string // module class, autograd node, operator
	saved   map[string]int64
	events  []event
	release string
	births  []int32 // of every block of the file, which birth here; −1 for what is left out
	kept    int32
}

// generatorState is the state of the CPU's random numbers, which checkpoints keep
// in main memory, on a GPU too.
const generatorState = 5056

func (r recorded) String() string { return r.family + " " + strings.Join(r.words, " ") }

// option is the value of a condition; "" where it was not given.
func (r recorded) option(name string) string {
	for i, w := range r.words {
		if w == "--"+name && i+1 < len(r.words) {
			return r.words[i+1]
		}
	}
	return ""
}

// flag reports a condition without a value.
func (r recorded) flag(name string) bool {
	for _, w := range r.words {
		if w == "--"+name {
			return true
		}
	}
	return false
}

// ownModules reports software whose modules are not those of transformers.
func (r recorded) ownModules() bool {
	software := r.option("software")
	return software != "" && software != "trl"
}

// releaseOf is the release of a package that ran.
func (r recorded) releaseOf(name string) string {
	words := strings.Fields(r.release)
	for i := 0; i+1 < len(words); i += 2 {
		if words[i] == name {
			return words[i+1]
		}
	}
	return ""
}

func (r recorded) number(at int) int64 {
	n, _ := strconv.ParseInt(r.words[at], 10, 64)
	return n
}

// event is a birth (bytes above 0), a death (of), or the begin of a phase.
type event struct {
	phase string
	bytes int64
	name  int32
	of    int32 // which birth
}

// phase is the levels of a span, beyond what lived before the run.
type phase struct {
	name             string
	start, peak, end int64
	at               int // the event of the peak
}

// phases adds the events up.
func phases(events []event) []phase {
	var list []phase
	var level int64
	var born []int64
	for i, e := range events {
		switch {
		case e.phase != "":
			list = append(list, phase{name: e.phase, start: level, peak: level, end: level, at: i})
			continue
		case e.bytes > 0:
			level += e.bytes
			born = append(born, e.bytes)
		default:
			level -= born[e.of]
		}
		p := &list[len(list)-1]
		p.end = level
		if level > p.peak {
			p.peak, p.at = level, i
		}
	}
	return list
}

// readRecordings reads every family's file, or those that are named.
func readRecordings(t testing.TB, families ...string) []recorded {
	t.Helper()
	if len(families) == 0 {
		files, err := filepath.Glob(filepath.Join(recordings, "*", "facts.txt.gz"))
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range files {
			families = append(families, filepath.Base(filepath.Dir(f)))
		}
	}
	var list []recorded
	for _, family := range families {
		list = append(list, readFamily(t, family)...)
	}
	return list
}

func readFamily(t testing.TB, family string) []recorded {
	t.Helper()
	f, err := os.Open(filepath.Join(recordings, family, "facts.txt.gz"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	var list []recorded
	lines := bufio.NewScanner(z)
	for n := 1; lines.Scan(); n++ {
		words := strings.Fields(lines.Text())
		if words[0] == "case" {
			list = append(list, recorded{family: words[1], words: words[2:], start: map[string]int64{}, saved: map[string]int64{}})
			continue
		}
		if err := list[len(list)-1].take(words); err != nil {
			t.Fatalf("%s line %d: %v", f.Name(), n, err)
		}
	}
	if err := lines.Err(); err != nil {
		t.Fatal(err)
	}
	return list
}

// take reads one line of a case.
func (r *recorded) take(words []string) error {
	switch w := words[0]; {
	case w == "with":
		r.release = strings.Join(words[1:], " ")
	case w == "start":
		for i := 1; i+1 < len(words); i += 2 {
			n, err := strconv.ParseInt(words[i+1], 10, 64)
			if err != nil {
				return err
			}
			r.start[words[i]] = n
		}
	case w == "op":
		r.names = append(r.names, strings.Join(words[2:], " "))
	case w == "saved":
		n, err := strconv.ParseInt(words[4], 10, 64)
		if err != nil {
			return err
		}
		r.saved[words[1]] = n
	case w == "phase":
		r.events = append(r.events, event{phase: strings.Join(words[1:], " ")})
	case w[0] == '+':
		bytes, err := strconv.ParseInt(w[1:], 10, 64)
		if err != nil {
			return err
		}
		name, err := strconv.Atoi(words[1])
		if err != nil || name >= len(r.names) {
			return fmt.Errorf("%q names no operator", words[1])
		}
		if bytes == generatorState && strings.HasSuffix(r.names[name], " other") {
			r.births = append(r.births, -1)
			return nil
		}
		r.births = append(r.births, r.kept)
		r.kept++
		r.events = append(r.events, event{bytes: bytes, name: int32(name)})
	case w[0] == '-':
		of, err := strconv.Atoi(w[1:])
		if err != nil || of < 0 || of >= len(r.births) {
			return fmt.Errorf("%q is the death of no block", w)
		}
		if r.births[of] >= 0 {
			r.events = append(r.events, event{of: r.births[of]})
		}
	}
	return nil
}
