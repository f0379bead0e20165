package enginelog

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"floodmark/account"
	"floodmark/internal/sorting"
	"floodmark/internal/source"
)

// Component is one printed number of bytes. A component, device and kind can
// come again further on: that is a later reading, and both are kept.
type Component struct {
	Component string // who holds or asks: "pytorch", "this process", "process 19239", "device", "nccl"
	Rank      int    // −1 when the text does not say
	Device    int    // ordinal as the text prints it, −1 when it does not
	Kind      Kind
	Bytes     account.Figure
	Printed   string // as the text has it: "452.50 KiB", "0 bytes"
	Line      int    // 1 is the first
}

// Kind says what a component's bytes are.
type Kind string

const (
	KindRequest          Kind = "request"       // what could not be had
	KindCapacity         Kind = "capacity"      // all that the device has
	KindFree             Kind = "free"          // what the driver still had
	KindInUse            Kind = "in_use"        // everything that one process holds on the device
	KindAllocated        Kind = "allocated"     // blocks held by tensors
	KindActive           Kind = "active"        // allocated, and freed blocks that wait for a stream
	KindReserved         Kind = "reserved"      // all that the caching allocator holds
	KindUnallocated      Kind = "unallocated"   // reserved but not allocated
	KindInactive         Kind = "inactive"      // free blocks split from larger ones
	KindPrivatePools     Kind = "private_pools" // free blocks in pools of CUDA graphs
	KindAllowed          Kind = "allowed"       // the most that the process may reserve
	KindOtherAllocations Kind = "other_allocations"
)

// Setting is an allocator setting that the text shows to be in force.
type Setting struct {
	Name  string // "expandable_segments", "max_split_size_mb", ...
	Value string
	Line  int
}

// Log is what was understood of a text.
type Log struct {
	Name          string
	Components    []Component   // in the order of the text
	OutOfMemory   []OutOfMemory // in the order of the text, equal messages once
	Settings      []Setting
	Model         string // that the first line of vLLM about its configuration names, or ""
	Lines         int    // how many there are
	NotUnderstood int    // how many of them, blank ones aside, said nothing to any reader
	Warnings      []account.Warning
}

// most is how many failures of a text are kept; the rest are counted in a
// warning.
const most = 1000

// Read reads a text, or a gzip of one, to its end. It is
// [source.ErrNotThisFormat] when nothing in it was recognised, and a
// [*source.FormatError] when that is so of a gzip that is damaged. The text is
// never held in memory as a whole.
func Read(src source.Source) (*Log, error) {
	in, err := openText(src)
	if err != nil {
		return nil, err
	}
	log := &Log{Name: src.Name()}
	oom := newOOMReader(src.Name())
	engines := engineReader{name: src.Name()}
	var fault faultReader
	blank := 0
	err = eachLine(in.r, func(l line) {
		log.Lines = l.number
		if l.starts && strings.TrimSpace(l.text) == "" {
			blank++
		}
		oom.traces.take(l)
		oom.take(l)
		engines.take(l)
		fault.take(l)
	})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", src.Name(), err)
	}
	understood := oom.finish(log) + oom.traces.understood + engines.finish(log)
	if len(log.OutOfMemory) == 0 && len(log.Components) == 0 && len(engines.refused) == 0 {
		return nil, in.nothing(src.Name())
	}
	sorting.By(log.Components, func(i, j int) int { return cmp.Compare(log.Components[i].Line, log.Components[j].Line) })
	log.NotUnderstood = max(log.Lines-blank-understood, 0)
	numbers := refusals(log.Components)
	log.Warnings = slices.Concat(log.Warnings, numbers, inWords(engines.refused, numbers), in.warnings())
	if len(log.OutOfMemory) == 0 && len(engines.refused) == 0 && len(numbers) == 0 {
		log.Warnings = append(log.Warnings, fault.warning()...)
	}
	return log, nil
}

// line is one line of a text, or a piece of a very long one.
type line struct {
	number int
	starts bool   // false for the further pieces of a long line
	text   string // without colours and control characters
}

// piece is how much of a line is looked at at once. Longer lines come in
// pieces, which readers join as they join lines that a terminal wrapped.
const piece = 64 << 10

// eachLine streams the lines of a text.
func eachLine(r io.Reader, take func(line)) error {
	in := bufio.NewReaderSize(r, piece)
	number, starts := 1, true
	for {
		data, err := in.ReadSlice('\n')
		if len(data) > 0 {
			take(line{number: number, starts: starts, text: plain(data)})
		}
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
			starts = false
			continue
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		}
		number, starts = number+1, true
	}
}

// Find lists the readings of one component, device and kind.
func (l *Log) Find(component string, device int, kind Kind) []Component {
	var found []Component
	for _, c := range l.Components {
		if c.Component == component && c.Device == device && c.Kind == kind {
			found = append(found, c)
		}
	}
	return found
}

// setting is the last value of an allocator setting; false when the text does
// not show it.
func (l *Log) setting(name string) (Setting, bool) {
	for _, s := range slices.Backward(l.Settings) {
		if s.Name == name {
			return s, true
		}
	}
	return Setting{}, false
}
