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
		ref = b.appendOther(list, items)
	}
	return pickle.ListRef(ref), err
}

func (b *builder) appendOther(list pickle.Value, items []pickle.Value) uint64 {
	if p, ok := poolOf(items); ok && classOf(list) == classEmpty {
		return reference(classPool, int(b.pools.index(p)))
	}
	return reference(classUninteresting, 0)
}

func (b *builder) appendFrames(list pickle.Value, items []pickle.Value) (uint64, error) {
	scratch := b.stacks.scratch[:0]
	switch classOf(list) {
	case classEmpty:
	case classStack:
		scratch = append(scratch, b.stacks.table.Stack(uint32(indexOf(list)))...)
	default:
		return 0, b.misplaced("a list", items[0], "more of the same")
	}
	for _, v := range items {
		if v.Kind() != pickle.Dict || classOf(v) != classFrame {
			return 0, b.misplaced("a list of frames", v, "a frame")
		}
		scratch = append(scratch, uint32(indexOf(v)))
	}
	b.stacks.scratch = scratch
	return reference(classStack, int(b.stacks.intern(scratch))), nil
}

// appendRows takes rows that follow one another: a list is then a span.
func (b *builder) appendRows(list pickle.Value, items []pickle.Value, of, result class) (uint64, error) {
	index := len(b.spans)
	switch classOf(list) {
	case classEmpty:
		b.spans = append(b.spans, span{first: indexOf(items[0])})
	case result:
		index = indexOf(list)
	default:
		return 0, b.misplaced("a list", items[0], "more of the same")
	}
	s := &b.spans[index]
	for _, v := range items {
		if classOf(v) != of || v.Kind() != pickle.Dict {
			return 0, b.misplaced("a list", v, "more of the same")
		}
		if indexOf(v) != s.first+s.count {
			return 0, source.InField("", b.row.kind, "stands in two places of the file")
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
		return 0, b.misplaced("a list", items[0], "more of the same")
	}
	for _, v := range items {
		switch c := classOf(v); {
		case v.Kind() == pickle.List && c == classEmpty:
			b.traces[index] = append(b.traces[index], span{})
		case c == classEntries:
			b.traces[index] = append(b.traces[index], b.spans[indexOf(v)])
		default:
			return 0, b.misplaced("device_traces", v, "a list of entries")
		}
	}
	return reference(classTraces, index), nil
}

// list is the span that a field of the current dict names; an absent or empty
// list is an empty span.
func (b *builder) list(f field, want class) (span, error) {
	if !b.row.has(f) {
		return span{}, nil
	}
	return b.spanOf(b.row.values[f], b.row.kind+"."+f.key(), want)
}

func (b *builder) spanOf(v pickle.Value, name string, want class) (span, error) {
	switch {
	case v.Kind() == pickle.None, v.Kind() == pickle.List && classOf(v) == classEmpty:
		return span{}, nil
	case v.Kind() == pickle.List && classOf(v) == want:
		return b.spans[indexOf(v)], nil
	}
	return span{}, source.InField("", name, "is a %s of another form than PyTorch's list of dicts", v.Kind())
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

func (b *builder) misplaced(where string, v pickle.Value, want string) error {
	return source.InField("", where, "holds a %s, expected %s", v.Kind(), want)
}
