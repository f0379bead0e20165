package measurement

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"floodmark/account"
	"floodmark/internal/sorting"
	"floodmark/internal/source"
)

const (
	// maxLine bounds a line of a stream; the probe keeps them within 64 KiB.
	maxLine = 1 << 20
	// maxPhases bounds the phases that are kept of one stream, and those that are
	// kept beyond them because they failed or did not end.
	maxPhases = 20000
	// maxRemarks bounds what a stream says besides its phases: warnings, devices
	// and extensions, each. No process has as many, and a reader less.
	maxRemarks = 1000
)

// Stream is what one process wrote.
type Stream struct {
	Name    string
	Process Rank
	Boot    string
	// Phases are in the order in which they began; the whole process is last.
	Phases      []Phase
	Environment Environment
	Verifying   bool // no phase was delimited
	Lab         *LabArguments
	Impossible  *Impossible // the lab could not measure
	Snapshots   []string    // files that were written when memory ran out
	Warnings    []account.Warning
	Began       int64 // monotonic
}

// LabArguments are what the lab ran with.
type LabArguments struct {
	Batch, Context, Width int64
	Warmup, Repeats       *int
	EmptyCache            *bool
	Seed                  *int64
}

// Impossible says why nothing can be measured: Missing is pytorch, cuda or
// device.
type Impossible struct{ Missing, Detail string }

// ReadStream reads the lines that one process wrote. A last line that was cut
// off does not count; lines that say nothing are counted in a warning. Bytes
// that do not begin as a stream are [source.ErrNotThisFormat].
func ReadStream(name string, r io.Reader) (*Stream, error) {
	s := &reading{Stream: Stream{Name: name}, open: map[int64]*line{}}
	s.Process = Rank{Rank: -1, Status: RankCut}
	in := bufio.NewReaderSize(r, 64<<10)
	for number := 1; ; number++ {
		text, err := readLine(in)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, source.OfFile(name, err)
		}
		l, ok := decode(text)
		if number == 1 && (!ok || l.Type != "process") {
			return nil, source.ErrNotThisFormat
		}
		if !ok {
			s.unread++
			continue
		}
		s.take(l)
	}
	if s.lines == 0 {
		return nil, source.ErrNotThisFormat
	}
	s.finish()
	return &s.Stream, nil
}

// readLine is the next whole line; io.EOF also where the last one was cut off.
// Of a line beyond the bound only the beginning is kept, which does not decode.
func readLine(in *bufio.Reader) ([]byte, error) {
	var text []byte
	for {
		part, err := in.ReadSlice('\n')
		if len(text) < maxLine {
			text = append(text, part...)
		}
		switch {
		case err == nil:
			return text, nil
		case !errors.Is(err, bufio.ErrBufferFull):
			return nil, err
		}
	}
}

func decode(text []byte) (*line, bool) {
	l := &line{}
	if len(bytes.TrimSpace(text)) == 0 || json.Unmarshal(text, l) != nil || l.V < 1 || l.Type == "" {
		return nil, false
	}
	return l, true
}

// reading is a stream as it is read.
type reading struct {
	Stream
	open   map[int64]*line // phases that began, by id
	order  []int64
	async  map[int]bool // devices whose reserved peak is an upper bound
	ended  *line
	lines  int
	unread int
	failed int   // phases that are kept and did not complete
	beyond int   // phases that are not kept
	unsaid int   // warnings that are not kept
	last   int64 // the clock of the last line
}

func (s *reading) take(l *line) {
	s.lines++
	s.last = max(s.last, l.Mono)
	switch l.Type {
	case "process", "rank":
		s.process(l)
	case "torch":
		s.torch(l)
	case "device":
		s.device(l)
	case "begin":
		if s.open[l.ID] == nil {
			s.order = append(s.order, l.ID)
		}
		s.open[l.ID] = l
	case "end":
		delete(s.open, l.ID)
		s.keep(s.phases(l))
	case "missing":
		s.keep([]Phase{{ID: PhaseNamed(l.Name), Name: l.Name, Step: step(l.Step), Device: -1, Began: l.Mono, Ended: l.Mono, Status: Missing, Note: l.Reason}})
	case "exit":
		s.ended = l
	default:
		s.remark(l)
	}
}

// keep adds phases within the bounds, which what did not complete has for itself.
func (s *reading) keep(phases []Phase) {
	for _, p := range phases {
		kept := len(s.Phases) - s.failed
		if p.Status != Completed {
			kept = s.failed
		}
		if kept >= maxPhases {
			s.beyond++
			continue
		}
		if p.Status != Completed {
			s.failed++
		}
		s.Phases = append(s.Phases, p)
	}
}

func (s *reading) process(l *line) {
	if l.Type == "process" {
		s.Process.PID, s.Process.Host, s.Boot, s.Began = l.PID, l.Host, l.Boot, l.Mono
		s.Environment.Python = l.Python
		s.Verifying = string(l.Phases) == "false"
	}
	if l.Rank != nil && *l.Rank >= 0 {
		s.Process.Rank = *l.Rank
	}
	if l.WorldSize != nil && *l.WorldSize > 0 {
		s.Process.World = min(*l.WorldSize, maxRanks)
	}
}

func (s *reading) torch(l *line) {
	s.Environment.PyTorch = l.Torch
	switch {
	case l.HIP != "":
		s.Environment.Backend = "hip " + l.HIP
	case l.CUDA != "":
		s.Environment.Backend = "cuda " + l.CUDA
	default:
		s.Environment.Backend = "cpu"
	}
	room := max(0, maxRemarks-len(s.Environment.Extensions))
	for _, e := range l.Extensions[:min(room, len(l.Extensions))] {
		s.Environment.Extensions = append(s.Environment.Extensions, Version(e))
	}
}

func (s *reading) device(l *line) {
	d := Device{Name: l.Name, UUID: l.UUID, PCI: strings.ToLower(l.PCI), TotalBytes: natural(l.Total)}
	if json.Unmarshal(l.Device, &d.Index) != nil || d.Index < 0 {
		return
	}
	if len(s.Environment.Devices) < maxRemarks {
		s.Environment.Devices = append(s.Environment.Devices, d)
	}
	if a := l.Allocator; a != nil {
		s.Environment.Allocator = a.Backend
		for _, name := range []string{"PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_HIP_ALLOC_CONF"} {
			if v := a.Settings[name]; v != nil && s.Environment.Settings == "" {
				s.Environment.Settings = *v
			}
		}
		if a.PeakReserved == "upper_bound" {
			if s.async == nil {
				s.async = map[int]bool{}
			}
			s.async[d.Index] = true
		}
	}
}

// remark takes the lines that a reader must be told of.
func (s *reading) remark(l *line) {
	switch l.Type {
	case "lab":
		s.Lab = &LabArguments{l.Batch, l.Context, l.Width, l.Warmup, l.Repeats, l.EmptyCache, l.Seed}
	case "impossible":
		s.Impossible = &Impossible{l.Missing, l.Detail}
	case "guard":
		s.warn("budget_exceeded", "the run was stopped because the declared budget cannot hold: "+l.Reason)
	case "snapshot":
		if l.Path == "" {
			s.warn("no_snapshot", "memory ran out and no snapshot could be written: "+l.Reason)
			return
		}
		if len(s.Snapshots) < maxRemarks {
			s.Snapshots = append(s.Snapshots, l.Path)
		}
		s.warn("snapshot", "memory ran out; the snapshot is in "+l.Path)
	case "tokens":
		if l.Tokens != nil && *l.Tokens > 0 {
			s.warn("truncated_tokens", fmt.Sprintf("a tokenizer cut off %d tokens: with less of its input it is another task, whatever its peak", *l.Tokens))
		}
	case "steps":
		s.warn("steps_limited", fmt.Sprintf("phases were delimited in the first %s steps only; the row of the whole process covers the later ones too", strings.TrimSpace(string(l.Steps))))
	case "note":
		s.warn(l.Code, l.Text)
	}
}

func (s *reading) warn(code, text string) {
	if len(s.Warnings) >= maxRemarks {
		s.unsaid++
		return
	}
	s.Warnings = append(s.Warnings, account.Warning{Code: code, Text: text})
}

// finish adds what did not end, and the process as a whole.
func (s *reading) finish() {
	for _, id := range s.order {
		if l := s.open[id]; l != nil {
			l.Status = "unfinished"
			l.Duration = nil
			s.keep(s.phases(l))
		}
	}
	// As they began, an outer one before what is within it.
	sorting.By(s.Phases, func(i, j int) int {
		return cmp.Or(cmp.Compare(s.Phases[i].Began, s.Phases[j].Began), cmp.Compare(s.Phases[j].Ended, s.Phases[i].Ended))
	})
	if s.ended != nil {
		s.Process.Status = RankEnded
	}
	s.Phases = append(s.Phases, s.whole()...)
	s.leftOut()
	for i := range s.Phases {
		s.Phases[i].Rank = s.Process.Rank
	}
}

// leftOut says what of the stream is in no figure. These warnings have no bound.
func (s *reading) leftOut() {
	tell := func(n int, code, text string) {
		if n > 0 {
			s.Warnings = append(s.Warnings, account.Warning{Code: code, Text: fmt.Sprintf(text, n, s.Process.PID)})
		}
	}
	tell(s.beyond, "phases_left_out", fmt.Sprintf("%%d further phases of process %%d are not in this record: it keeps the first %d, and as many that failed", maxPhases))
	tell(s.unread, "lines_not_understood", "%d lines of process %d are no readings")
	tell(s.unsaid, "warnings_left_out", "%d further warnings of process %d are not in this record")
}
