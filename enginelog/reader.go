package enginelog

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"floodmark/account"
)

// head begins a message, in squashed text. "Tried to allocate" begins one only
// where the beginning of a paste is cut off. The texts are those of PyTorch's
// caching allocators (CUDA and HIP, XPU, MPS, and the backends that copied
// theirs), of its error checks, and of NCCL's and RCCL's alloc.h.
var head = pattern(`((?:CUDA|Cuda|HIP|XPU|NPU|MUSA|MLU)outofmemory` +
	`|MPSbackendoutofmemory` +
	`|(?:CUDA|HIP|XPU)(?:driver)?error:outofmemory` +
	`|cudaruntimeerror\(2\):outofmemory` +
	`|Cudafailure2?'outofmemory'` +
	`|FailedtoCUDAcalloc` +
	`|(?:expandable_segments:)?memorymappingfailedwithOOMondevice` +
	`|CurrentplatformcanNOTallocatememoryblock` +
	`|Invalidbuffersize:\d` +
	`|Triedtoallocate)`)

const (
	tried = "Triedtoallocate"
	// tail is how much of the text before is kept, to find a head that a
	// terminal wrapped: no head is longer.
	tail = 64
	// A message is not followed further than this.
	longest, mostLines = 6000, 14
)

// oomReader finds out-of-memory messages, those of each writer apart.
type oomReader struct {
	name       string
	traces     tracer
	streams    map[string]*stream
	last       *stream
	found      []OutOfMemory
	seen       map[string]int // who and message → index into found
	dropped    int
	settings   []Setting
	understood int    // lines that were part of a message or showed a setting
	held       line   // the line before, if it was passed over
	passed     bool   // whether it was
	until      int    // up to this line every line is read
	by         writer // of the line of which pieces are read
}

// stream is the squashed text of one writer: its last bytes or, once a message
// was found, the message.
type stream struct {
	writer  writer
	where   Where // of the message that is open
	text    string
	open    bool
	starts  []start // where in text each line begins
	counted int     // the last line that was counted as understood
	told    int     // how many had been found with its last failure that has numbers; 0 is none
}

// start is where a line begins in the text of a stream. Skip is how many
// squashed bytes of the line came before the text.
type start struct {
	offset, line, skip int
	raw                string
}

func newOOMReader(name string) *oomReader {
	return &oomReader{name: name, streams: map[string]*stream{}, seen: map[string]int{}}
}

// take takes the next line. Most lines of a log say nothing here, and are
// passed over after a plain search; where one may, the line before it is read
// too, as a head may have been wrapped, and so are the lines that follow.
func (r *oomReader) take(l line) {
	const following = 200
	switch {
	case promising(l.text):
		if r.passed {
			r.read(r.held)
		}
		r.until = l.number + following
	case l.number > r.until:
		if !r.passed {
			r.closeAll()
		}
		r.held, r.passed = l, true
		return
	}
	r.passed = false
	r.read(l)
}

// promising reports whether a line may be part of a message, or show a
// setting. Wherever a terminal breaks a head, one of its parts is promising.
func promising(text string) bool {
	for _, word := range []string{"out of", "f memory", "ried to", "o alloc", "OOM", "failed with", "o CUDA", "CUDA c", "uffer size", "ALLOC_CONF", "outof"} {
		if strings.Contains(text, word) {
			return true
		}
	}
	return false
}

// read reads a line, or a piece of one, whose prefix is that of its start.
func (r *oomReader) read(l line) {
	if l.starts {
		r.by, l.text = prefix(l.text)
	}
	text := squash(l.text)
	if text == "" {
		return
	}
	s := r.stream(r.by, text)
	r.readSettings(l, s.text)
	from := max(0, len(s.text)-tail)
	if s.open {
		from = max(1, from)
	}
	before := len(s.text)
	s.text += text
	s.starts = append(s.starts, start{offset: before, line: l.number, raw: l.text})
	for {
		at, end, ok := nextHead(s.text, from)
		switch {
		case !ok:
			r.settle(s)
			return
		case end <= before, s.open && s.text[at:end] == tried && awaitsRequest(s.text[:at]):
			from = end
			continue
		}
		if s.open {
			r.close(s, at)
			end -= at
		} else {
			s.cut(at)
			end -= at
		}
		s.where = r.traces.at(r.by.name, l.number)
		s.open, before, from = true, 0, end
	}
}

// nextHead finds a head; plain searches come first, as most lines have none.
func nextHead(text string, from int) (at, end int, ok bool) {
	rest := text[from:]
	for _, word := range []string{"outofmemory", tried, "CUDAcalloc", "withOOMon", "memoryblock", "buffersize:"} {
		if strings.Contains(rest, word) {
			m := head().FindStringIndex(rest)
			if m == nil {
				return 0, 0, false
			}
			return from + m[0], from + m[1], true
		}
	}
	return 0, 0, false
}

// stream is that of a line's writer. A line without any prefix goes on with
// the line before, as a terminal wraps it, unless it begins a message itself.
func (r *oomReader) stream(by writer, text string) *stream {
	if by.bare && r.last != nil && r.last.goesOn(text) {
		return r.last
	}
	const mostWriters = 256
	key := by.name
	if r.streams[key] == nil && len(r.streams) >= mostWriters {
		key = ""
	}
	if r.streams[key] == nil {
		r.streams[key] = &stream{writer: by}
	}
	r.last = r.streams[key]
	return r.last
}

// awaitsRequest reports whether an open message is one that says further on
// what was tried, and has not said so yet.
func awaitsRequest(text string) bool {
	h := head().FindString(text)
	allocator := strings.HasSuffix(h, "outofmemory") && !strings.Contains(h, "error")
	return (allocator || strings.HasPrefix(h, "Currentplatform")) && !strings.Contains(text, tried)
}

// goesOn reports whether a line can be the next part of a stream: it begins no
// message, or the stream ended within the words that it goes on with.
func (s *stream) goesOn(text string) bool {
	at, end, begins := nextHead(text, 0)
	if !begins || (s.open && text[at:end] == tried && awaitsRequest(s.text)) {
		return true
	}
	before := s.text[max(0, len(s.text)-tail):]
	at, end, begins = nextHead(before+text, 0)
	return begins && at < len(before) && end > len(before)
}

// settle forgets what is no longer needed, and ends a message that goes on for
// too long.
func (r *oomReader) settle(s *stream) {
	if s.open && (len(s.text) > longest || len(s.starts) > mostLines) {
		r.close(s, len(s.text))
	}
	if !s.open && len(s.text) > tail {
		s.cut(len(s.text) - tail)
	}
}

// close reads the message that ends at an offset, and keeps what follows it.
func (r *oomReader) close(s *stream, end int) {
	m, last := parse(s.text[:end], s.writer, s.starts, r.name)
	m.Where = s.where
	if m.Line > 0 {
		for _, at := range s.starts {
			if at.offset < last && at.line > s.counted {
				r.understood++
				s.counted = at.line
			}
		}
		r.add(m, s)
	}
	s.open = false
	s.cut(end)
}

// cut drops the text before an offset.
func (s *stream) cut(offset int) {
	s.text = strings.Clone(s.text[offset:])
	var kept []start
	for i, at := range s.starts {
		if i+1 < len(s.starts) && s.starts[i+1].offset <= offset {
			continue
		}
		at.skip += max(0, offset-at.offset)
		at.offset = max(0, at.offset-offset)
		kept = append(kept, at)
	}
	s.starts = kept
	if s.text == "" {
		s.starts = nil
	}
}

// add keeps a message. The same message again, as tracebacks and launchers
// print it, is counted with the first; so is one that only says that memory
// ran out, after the same writer has given the numbers.
func (r *oomReader) add(m OutOfMemory, s *stream) {
	if len(m.components) == 0 && !m.retold && s.told > 0 && awaitsRequest(squash(m.Message)) {
		r.found[s.told-1].Repeats++
		return
	}
	own, anyone := m.who()+m.Message, m.Message
	i, known := r.seen[own]
	if !known {
		i, known = r.seen[anyone]
		known = known && (own == anyone || r.found[i].who() == "")
	}
	if known {
		r.found[i].merge(m)
		r.seen[r.found[i].who()+m.Message] = i
		return
	}
	if len(r.found) >= most {
		r.dropped++
		return
	}
	r.seen[own] = len(r.found)
	if _, taken := r.seen[anyone]; !taken {
		r.seen[anyone] = len(r.found)
	}
	r.found = append(r.found, m)
	if len(m.components) > 0 && !m.Retried {
		s.told = len(r.found)
	}
}

// merge counts a copy of a message. The one that comes first in the text
// stands for both; the rank may be known from either.
func (m *OutOfMemory) merge(other OutOfMemory) {
	rank, repeats := max(m.Rank, other.Rank), m.Repeats+1
	first, second := *m, other
	if second.Line < first.Line {
		first, second = second, first
	}
	if first.Where.File == "" {
		first.Where = second.Where
	}
	*m = first
	m.Repeats = repeats
	m.setRank(rank)
}

// retell takes what an engine says of a failure in its own words.
func (m *OutOfMemory) retell(other OutOfMemory) {
	m.Repeats += other.Repeats + 1
	m.Phase, m.Remedies = other.Phase, other.Remedies
}

// fold gives each retelling to the failure that it retells: the last one before
// it, of the same rank where both are known. One without any stays a failure.
func fold(found []OutOfMemory) []OutOfMemory {
	var kept []OutOfMemory
	for _, m := range found {
		at := len(kept) - 1
		for at >= 0 && m.retold && !m.retells(&kept[at]) {
			at--
		}
		if at < 0 || !m.retold {
			kept = append(kept, m)
			continue
		}
		kept[at].retell(m)
	}
	return kept
}

// retells reports whether a message can be another one told again.
func (m *OutOfMemory) retells(other *OutOfMemory) bool {
	return len(other.components) > 0 && (m.Rank < 0 || other.Rank < 0 || m.Rank == other.Rank)
}

// who tells equal messages of two failures apart: by rank, and by process
// where there are no numbers. Numbers that agree to the last digit are those of
// one failure that another process printed again.
func (m *OutOfMemory) who() string {
	switch {
	case m.Rank >= 0:
		return fmt.Sprintf("rank %d: ", m.Rank)
	case m.PID > 0 && len(m.components) == 0:
		return fmt.Sprintf("process %d: ", m.PID)
	}
	return ""
}

// closeAll ends the messages that are open.
func (r *oomReader) closeAll() {
	for _, name := range slices.Sorted(maps.Keys(r.streams)) {
		if s := r.streams[name]; s.open {
			r.close(s, len(s.text))
		}
	}
}

// finish ends the messages that are open, judges them all, and gives how many
// lines they took.
func (r *oomReader) finish(log *Log) int {
	r.closeAll()
	slices.SortStableFunc(r.found, func(a, b OutOfMemory) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Message, b.Message))
	})
	log.Settings = append(log.Settings, r.settings...)
	log.OutOfMemory = fold(r.found)
	for i := range log.OutOfMemory {
		m := &log.OutOfMemory[i]
		m.judge(log)
		log.Components = append(log.Components, m.components...)
	}
	if slices.ContainsFunc(log.Components, func(c Component) bool { return binaryUnderOldName(c.Printed) }) {
		log.Warnings = append(log.Warnings, account.Warning{Code: "binary_units",
			Text: "the KB, MB and GB of this message are 2¹⁰, 2²⁰ and 2³⁰ bytes, which is KiB, MiB and GiB"})
	}
	if r.dropped > 0 {
		log.Warnings = append(log.Warnings, account.Warning{Code: "more_messages",
			Text: fmt.Sprintf("%d further out-of-memory messages were left out after the first %d", r.dropped, most)})
	}
	return r.understood
}
