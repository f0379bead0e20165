package snapshot

import (
	"strconv"

	"floodmark/internal/pickle"
	"floodmark/internal/source"
)

// Append takes items into a list; the first one says what the list is of.
func (b *builder) Append(list pickle.Value, items []pickle.Value) (pickle.Value, error) {
	var ref uint64
	var err error
	switch first := classOf(items[0]); {
	case classOf(list) == classUninteresting:
		return list, nil
	case first == classFrame:
		ref, err = b.appendFrames(list, items)
	case first == classEntry:
		ref, err = b.appendRows(list, items, classEntry, classEntries)
	case first == classBlock:
		ref, err = b.appendRows(list, items, classBlock, classBlocks)
	case first == classSegment:
		ref, err = b.appendRows(list, items, classSegment, classSegments)
	case first == classAnnotation:
		ref, err = b.appendRows(list, items, classAnnotation, classAnnotations)
	case first == classHistory:
		ref = reference(classHistories, indexOf(items[0]))
		if classOf(list) == classHistories {
			ref = list.Ref()
		}
	case items[0].Kind() == pickle.List && (first == classEmpty || first == classEntries):
		ref, err = b.appendTraces(list, items)
	default:
		ref, err = b.appendOther(list, items)
	}
	return pickle.ListRef(ref), err
}

func (b *builder) appendOther(list pickle.Value, items []pickle.Value) (uint64, error) {
	if p, ok := poolOf(items); ok && classOf(list) == classEmpty {
		return b.poolRef(p)
	}
	return reference(classUninteresting, 0), nil
}

// poolRef is what stands for a pool; a new one is a row.
func (b *builder) poolRef(p Pool) (uint64, error) {
	before := len(b.pools.list)
	index := b.pools.index(p)
	return reference(classPool, int(index)), b.take(len(b.pools.list) - before)
}

// framesARow is how many frames of a stack take as much memory as a row.
const framesARow = 16

func (b *builder) appendFrames(list pickle.Value, items []pickle.Value) (uint64, error) {
	scratch := b.stacks.scratch[:0]
	switch classOf(list) {
	case classEmpty:
	case classStack:
		scratch = append(scratch, b.stacks.table.Stack(uint32(indexOf(list)))...)
	default:
		return 0, b.misplaced(items[0], "more of the same")
	}
	for _, v := range items {
		if v.Kind() != pickle.Dict || classOf(v) != classFrame {
			return 0, b.misplaced(v, "a frame")
		}
		scratch = append(scratch, uint32(indexOf(v)))
	}
	b.stacks.scratch = scratch
	before := b.stacks.table.Len()
	stack := b.stacks.intern(scratch)
	if b.stacks.table.Len() > before {
		if err := b.take(1 + len(scratch)/framesARow); err != nil {
			return 0, err
		}
	}
	return reference(classStack, int(stack)), nil
}

// appendRows takes rows that follow one another: a list is then a span.
func (b *builder) appendRows(list pickle.Value, items []pickle.Value, of, result class) (uint64, error) {
	index := len(b.spans)
	switch classOf(list) {
	case classEmpty:
		if err := b.take(1); err != nil {
			return 0, err
		}
		b.spans = append(b.spans, span{first: indexOf(items[0])})
	case result:
		index = indexOf(list)
	default:
		return 0, b.misplaced(items[0], "more of the same")
	}
	s := &b.spans[index]
	for _, v := range items {
		if classOf(v) != of || v.Kind() != pickle.Dict {
			return 0, b.misplaced(v, "more of the same")
		}
		if indexOf(v) != s.first+s.count {
			return 0, source.InField("", "", "holds a dict that stands in two places of the file")
		}
		s.count++
	}
	return reference(result, index), nil
}

func (b *builder) appendTraces(list pickle.Value, items []pickle.Value) (uint64, error) {
	index := len(b.traces)
	switch classOf(list) {
	case classEmpty:
		b.traces = append(b.traces, nil)
	case classTraces:
		index = indexOf(list)
	default:
		return 0, b.misplaced(items[0], "more of the same")
	}
	for _, v := range items {
		switch c := classOf(v); {
		case v.Kind() == pickle.List && c == classEmpty:
			b.traces[index] = append(b.traces[index], span{})
		case c == classEntries:
			rows, err := b.hold(v, "list of entries")
			if err != nil {
				return 0, err
			}
			b.traces[index] = append(b.traces[index], rows)
		default:
			return 0, b.misplaced(v, "a list of entries")
		}
	}
	if n := len(b.traces[index]); n > maxDevice+1 {
		return 0, source.InField("", "", "holds the traces of %d devices, more than the %d that a process may have", n, maxDevice+1)
	}
	return reference(classTraces, index), nil
}

// hold is the span of a list that one thing contains. A file of a few bytes
// could name a list often, and each naming would be read as rows of its own.
func (b *builder) hold(list pickle.Value, what string) (span, error) {
	s := &b.spans[indexOf(list)]
	if s.held {
		return span{}, source.InField("", "", "holds a %s that stands in two places of the file", what)
	}
	s.held = true
	return *s, nil
}

// list is the span that a field of the current dict names; an absent or empty
// list is an empty span.
func (b *builder) list(f field, want class) (span, error) {
	if !b.row.has(f) {
		return span{}, nil
	}
	return b.spanOf(b.row.values[f], f.key(), want)
}

func (b *builder) spanOf(v pickle.Value, name string, want class) (span, error) {
	switch {
	case v.Kind() == pickle.None, v.Kind() == pickle.List && classOf(v) == classEmpty:
		return span{}, nil
	case v.Kind() == pickle.List && classOf(v) == want:
		return b.spans[indexOf(v)], nil
	}
	return span{}, source.InField("", name, "is %s, expected a list of dicts as PyTorch writes them", b.row.shown(v))
}

func (b *builder) pool(f field) uint32 {
	r := &b.row
	if !r.has(f) || r.values[f].Kind() == pickle.None {
		return 0
	}
	if classOf(r.values[f]) != classPool {
		r.wrong(f, "two integers")
		return 0
	}
	return uint32(indexOf(r.values[f]))
}

// pairs reads a small dict of numbers whose keys are numbers, as
// roundup_power2_divisions has them.
func (b *builder) pairs(items []pickle.Value) ([]Roundup, bool) {
	if len(items) > 128 {
		return nil, false
	}
	var list []Roundup
	for i := 0; i+1 < len(items); i += 2 {
		from, err := strconv.ParseInt(b.strings.At(items[i].Index()), 10, 64)
		n, ok := items[i+1].Int()
		if err != nil || !ok {
			return nil, false
		}
		list = append(list, Roundup{FromMiB: from, Divisions: n})
	}
	return list, true
}

func (b *builder) misplaced(v pickle.Value, want string) error {
	return source.InField("", "", "holds %s, expected %s", b.row.shown(v), want)
}

// Count implements [pickle.Counter].
func (b *builder) Count(list pickle.Value) int {
	switch i := indexOf(list); classOf(list) {
	case classStack:
		return len(b.stacks.table.Stack(uint32(i)))
	case classEntries, classSegments, classBlocks, classAnnotations:
		return b.spans[i].count
	case classTraces:
		return len(b.traces[i])
	}
	return 0
}
