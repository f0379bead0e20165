package enginelog

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"floodmark/account"
	"floodmark/internal/sorting"
)

const (
	// A message is not followed further than this.
	longest, mostLines = 6000, 14
	// mostWriters is how many writers are followed at one time.
	mostWriters = 4096
	// mostTexts is how many different messages are recognised without being read
	// again.
	mostTexts = 1024
)

// oomReader finds out-of-memory messages, those of each writer apart.
type oomReader struct {
	name       string
	traces     tracer
	streams    map[string]*stream
	last       *stream
	found      []OutOfMemory
	seen       map[string]int      // who and message → index into found
	texts      map[string]*message // squashed message → what it says
	dropped    dropped
	crowded    bool // there were more writers than are followed
	settings   []Setting
	understood int    // lines that were part of a message or showed a setting
	held       line   // the line before, if it was passed over
	passed     bool   // whether it was
	until      int    // up to this line every line is read
	by         writer // of the line of which pieces are read
}

// message is a message without where it stands and who wrote it.
type message struct {
	OutOfMemory
	last int // where the last thing understood ends
}

func newOOMReader(name string) *oomReader {
	return &oomReader{name: name, streams: map[string]*stream{}, seen: map[string]int{}, texts: map[string]*message{}}
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
	text, breaks := squash(l.text)
	if text == "" {
		return
	}
	own := heads(text)
	s := r.stream(r.by, text, own)
	r.readSettings(l, s.text)
	found := s.across(text, own)
	base, before := s.base, s.base+len(s.text)
	s.add(l.number, text, breaks)
	for _, h := range found {
		at, end := before+h.at-s.base, before+h.end-s.base
		word := s.text[at:end]
		if s.open && word == tried && s.awaitsRequest() {
			s.tried = true
			continue
		}
		if s.open {
			r.close(s, at)
		} else {
			s.cut(at)
		}
		s.begin(word, r.traces.at(r.by.name, l.number))
	}
	r.settle(s)
	s.shrink(s.base - base)
}

// stream is that of a line's writer. A line without any prefix goes on with
// the line before, as a terminal wraps it, unless it begins a message itself.
func (r *oomReader) stream(by writer, text string, own []span) *stream {
	if by.bare && r.last != nil && r.last.goesOn(text, own) {
		return r.last
	}
	if r.streams[by.name] == nil {
		if len(r.streams) >= mostWriters {
			r.crowded = true
			r.closeAll()
			clear(r.streams)
		}
		r.streams[by.name] = &stream{writer: by}
	}
	r.last = r.streams[by.name]
	return r.last
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

// close reads the message that ends at an offset, and keeps what follows it. A
// text that was read before is not read again, unless its numbers are needed in
// the lines where they stand now.
func (r *oomReader) close(s *stream, end int) {
	m, known := r.texts[s.text[:end]]
	if known {
		m.Line, m.Rank, m.PID, m.Where = s.lineAt(0), s.writer.rank, s.writer.pid, s.where
	}
	if !known || !r.counts(&m.OutOfMemory, s) {
		m = &message{}
		m.OutOfMemory, m.last = parse(s.upTo(end), len(s.head), s.writer, r.name)
		m.Where = s.where
		r.remember(s.text[:end], m)
		if m.Line > 0 {
			r.add(&m.OutOfMemory, s)
		}
	}
	r.understood += s.understood(m.last)
	s.open = false
	s.cut(end)
}

// remember keeps what a text says.
func (r *oomReader) remember(text string, m *message) {
	if len(text) > longest {
		return
	}
	if len(r.texts) >= mostTexts {
		clear(r.texts)
	}
	r.texts[strings.Clone(text)] = m
}

// counts counts a message that is not to be kept: it was before, or there is no
// room for it. False is for one that is to be kept, with its lines.
func (r *oomReader) counts(m *OutOfMemory, s *stream) bool {
	if m.Message == "" {
		return true // code that looks for a message, as before
	}
	if m.bare() && s.told > 0 {
		r.found[s.told-1].Repeats++
		return true
	}
	i, known := r.known(m)
	switch {
	case !known && len(r.found) >= most:
		r.dropped.add(m)
	case !known || m.Line < r.found[i].Line:
		return false
	default:
		r.merge(i, m)
	}
	return true
}

// add keeps a message. The same message again, as tracebacks and launchers
// print it, is counted with the first; so is one that only says that memory
// ran out, after the same writer has given the numbers.
func (r *oomReader) add(m *OutOfMemory, s *stream) {
	if m.bare() && s.told > 0 {
		r.found[s.told-1].Repeats++
		return
	}
	if i, known := r.known(m); known {
		r.merge(i, m)
		return
	}
	if len(r.found) >= most {
		r.dropped.add(m)
		return
	}
	r.seen[m.who()+m.Message] = len(r.found)
	if _, taken := r.seen[m.Message]; !taken {
		r.seen[m.Message] = len(r.found)
	}
	r.found = append(r.found, *m)
	if len(m.components) > 0 && !m.Retried {
		s.told = len(r.found)
	}
}

// bare reports a message that says nothing but that memory ran out.
func (m *OutOfMemory) bare() bool {
	return m.announced && len(m.components) == 0 && !m.retold && !m.TooLarge
}

// known is the failure that a message is of, if it was kept.
func (r *oomReader) known(m *OutOfMemory) (int, bool) {
	own, anyone := m.who()+m.Message, m.Message
	if i, known := r.seen[own]; known {
		return i, true
	}
	i, known := r.seen[anyone]
	return i, known && (own == anyone || r.found[i].who() == "")
}

// merge counts a copy of the failure at an index.
func (r *oomReader) merge(i int, m *OutOfMemory) {
	r.found[i].merge(m)
	r.seen[r.found[i].who()+m.Message] = i
}

// merge counts a copy of a message. The one that comes first in the text
// stands for both; the rank may be known from either.
func (m *OutOfMemory) merge(other *OutOfMemory) {
	rank, repeats, where := max(m.Rank, other.Rank), m.Repeats+1, other.Where
	if other.Line < m.Line {
		where = m.Where
		*m = *other
	}
	if m.Where.File == "" {
		m.Where = where
	}
	m.Repeats = repeats
	if m.Rank != rank {
		m.setRank(rank)
	}
}

// retell takes what an engine says of a failure in its own words.
func (m *OutOfMemory) retell(other OutOfMemory) {
	m.Repeats += other.Repeats + 1
	m.Phase, m.Remedies = other.Phase, other.Remedies
}

// fold gives each retelling to the failure that it retells: the last one before
// it, of the same rank where both are known, or where there is none the one right
// after it, as people paste the last error first. One without any stays a failure.
func fold(found []OutOfMemory) []OutOfMemory {
	const near = 20 // lines
	var kept []OutOfMemory
	for _, m := range found {
		at := len(kept) - 1
		if before := at; before >= 0 && kept[before].retold && m.Line-kept[before].Line <= near && !m.retold && kept[before].retells(&m) {
			m.retell(kept[before])
			kept[before] = m
			continue
		}
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
		return "rank " + strconv.Itoa(m.Rank) + ": "
	case m.PID > 0 && len(m.components) == 0:
		return process(m.PID) + ": "
	}
	return ""
}

// closeAll ends the messages that are open, in their order.
func (r *oomReader) closeAll() {
	var open []*stream
	for _, s := range r.streams {
		if s.open {
			open = append(open, s)
		}
	}
	sorting.By(open, func(i, j int) int {
		a, b := open[i], open[j]
		return cmp.Or(cmp.Compare(a.lineAt(0), b.lineAt(0)), cmp.Compare(a.writer.name, b.writer.name))
	})
	for _, s := range open {
		r.close(s, len(s.text))
	}
}

// finish ends the messages that are open, judges them all, and gives how many
// lines they took.
func (r *oomReader) finish(log *Log) int {
	r.closeAll()
	sorting.By(r.found, func(i, j int) int {
		a, b := r.found[i], r.found[j]
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Message, b.Message))
	})
	log.Settings = append(log.Settings, r.settings...)
	log.OutOfMemory = fold(r.found)
	for i := range log.OutOfMemory {
		m := &log.OutOfMemory[i]
		m.judge(log)
		if m.conflict != "" {
			log.Warnings = append(log.Warnings, account.Warning{Code: "contradiction",
				Text: fmt.Sprintf("line %d: the numbers contradict each other: %s", m.Line, m.conflict)})
		}
		log.Components = append(log.Components, m.components...)
	}
	if slices.ContainsFunc(log.Components, func(c Component) bool { return binaryUnderOldName(c.Printed) }) {
		log.Warnings = append(log.Warnings, account.Warning{Code: "binary_units",
			Text: "the KB, MB and GB of this message are 2¹⁰, 2²⁰ and 2³⁰ bytes, which is KiB, MiB and GiB"})
	}
	log.Warnings = append(log.Warnings, r.warnings()...)
	return r.understood
}
