package snapshot

import (
	"cmp"
	"fmt"
	"math"

	"floodmark/account"
	"floodmark/bytesize"
	"floodmark/internal/pickle"
	"floodmark/internal/sorting"
	"floodmark/internal/source"
)

// finish makes the snapshot of the root of what was read.
func (b *builder) finish(root pickle.Value) (*Snapshot, error) {
	t := b.top
	switch {
	case root.Kind() == pickle.Dict && classOf(root) == classTop:
	case root.Kind() == pickle.List && classOf(root) == classSegments:
		t = top{segments: root, traces: pickle.Nothing(), annotations: pickle.Nothing(), hostSegments: pickle.Nothing(), hostTraces: pickle.Nothing()}
	default:
		return nil, notThis(b.name)
	}
	s := &Snapshot{Name: b.name, Blocks: b.blocks, Pools: b.pools.list, Streams: b.streams.list, Stacks: b.stacks.table}
	s.Stacks.Strings = b.strings.All()
	s.Unknown = b.unknown.sorted(b.strings)
	if t.settings {
		s.Settings = &b.settings
	}
	if err := b.fill(s, t); err != nil {
		return nil, b.inFile(err)
	}
	if err := s.checkSums(); err != nil {
		return nil, b.inFile(err)
	}
	s.warnActions(b.actions)
	return s, nil
}

// inFile gives an error the name of the file.
func (b *builder) inFile(err error) error {
	if format, ok := err.(*source.FormatError); ok {
		format.File = b.name
	}
	return err
}

// fill cuts the columns as the root says.
func (b *builder) fill(s *Snapshot, t top) error {
	segments, err := b.spanOf(t.segments, "segments", classSegments)
	if err != nil {
		return err
	}
	s.Segments, s.NoSegments = cut(b.segments, segments), t.segments.Kind() == pickle.None
	host, err := b.spanOf(t.hostSegments, "host_segments", classSegments)
	if err != nil {
		return err
	}
	s.HostSegments = cut(b.segments, host)
	annotations, err := b.spanOf(t.annotations, "external_annotations", classAnnotations)
	if err != nil {
		return err
	}
	s.Annotations = cut(b.annotations, annotations)
	if s.Traces, err = b.tracesOf(t.traces, "device_traces"); err != nil {
		return err
	}
	s.HostTraces, err = b.tracesOf(t.hostTraces, "host_traces")
	return err
}

// tracesOf reads a list of lists of entries, or one list of entries.
func (b *builder) tracesOf(v pickle.Value, name string) ([]Trace, error) {
	if v.Kind() == pickle.List && classOf(v) == classTraces {
		var list []Trace
		for _, rows := range b.traces[indexOf(v)] {
			list = append(list, b.entries.part(rows))
		}
		return list, nil
	}
	rows, err := b.spanOf(v, name, classEntries)
	if err != nil || rows.count == 0 {
		return nil, err
	}
	return []Trace{b.entries.part(rows)}, nil
}

// sizes adds up every size of a file, of whatever, so that whoever adds some of
// them later need not ask whether the sum fits.
type sizes struct {
	sum int64
	err error
}

// maxSum is 60 bits.
const maxSum = math.MaxInt64 / 8

func (z *sizes) add(n int64, field func() string) {
	if total, ok := bytesize.Add(z.sum, n); ok && total <= maxSum {
		z.sum = total
	} else if z.err == nil {
		z.err = source.InField("", field(), "is %d: the sizes add up to more than 60 bits", n)
	}
}

// checkSums refuses sizes whose sum could overflow.
func (s *Snapshot) checkSums() error {
	var z sizes
	s.addSegments(&z, "segments", s.Segments)
	s.addSegments(&z, "host_segments", s.HostSegments)
	for _, list := range []struct {
		name   string
		traces []Trace
	}{{"device_traces", s.Traces}, {"host_traces", s.HostTraces}} {
		for d, t := range list.traces {
			for i, size := range t.Size {
				z.add(size, func() string { return fmt.Sprintf("%s[%d][%d].size", list.name, d, i) })
			}
		}
	}
	return z.err
}

func (s *Snapshot) addSegments(z *sizes, name string, segments []Segment) {
	for i, segment := range segments {
		add := func(n int64, f field) {
			z.add(n, func() string { return fmt.Sprintf("%s[%d].%s", name, i, f.key()) })
		}
		add(segment.Total, fieldTotalSize)
		for k, block := range s.Blocks[segment.First : segment.First+segment.Count] {
			add := func(n int64, f field) {
				z.add(n, func() string { return fmt.Sprintf("%s[%d].blocks[%d].%s", name, i, k, f.key()) })
			}
			add(block.Size, fieldSize)
			add(block.Requested, fieldRequestedSize)
		}
		add(segment.Allocated, fieldAllocatedSize)
		add(segment.Active, fieldActiveSize)
		add(segment.Requested, fieldRequestedSize)
	}
}

func (s *Snapshot) warn(code, format string, args ...any) {
	s.Warnings = append(s.Warnings, account.Warning{Code: code, Text: fmt.Sprintf(format, args...)})
}

func (s *Snapshot) warnActions(actions map[string]int) {
	names := make([]string, 0, len(actions))
	for name := range actions {
		names = append(names, name)
	}
	sorting.By(names, func(i, j int) int { return cmp.Compare(names[i], names[j]) })
	for _, name := range names[:min(len(names), 8)] {
		s.warn("unknown_action", "%d trace entries have the action %.40q, which is not known: they are kept and move no bytes", actions[name], name)
	}
}
