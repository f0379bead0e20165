package snapshot

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"floodmark/account"
	"floodmark/bytesize"
	"floodmark/internal/pickle"
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
	s.Segments = cut(b.segments, segments)
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

// checkSums refuses sizes whose sum could overflow: everything that adds sizes
// later then need not ask.
func (s *Snapshot) checkSums() error {
	var sum int64
	add := func(n int64) bool {
		total, ok := bytesize.Add(sum, n)
		sum = total
		return ok && sum <= math.MaxInt64/8
	}
	for i, segment := range s.Segments {
		if !add(segment.Total) {
			return source.InField("", fmt.Sprintf("segments[%d].total_size", i), "is %d: the sizes add up to more than 60 bits", segment.Total)
		}
	}
	for _, block := range s.Blocks {
		if !add(block.Size) || !add(block.Requested) {
			return source.InField("", "block.size", "is %d: the sizes add up to more than 60 bits", block.Size)
		}
	}
	for d, t := range s.Traces {
		for i, size := range t.Size {
			if !add(size) {
				return source.InField("", fmt.Sprintf("device_traces[%d][%d].size", d, i), "is %d: the sizes add up to more than 60 bits", size)
			}
		}
	}
	return nil
}

func (s *Snapshot) warn(code, format string, args ...any) {
	s.Warnings = append(s.Warnings, account.Warning{Code: code, Text: fmt.Sprintf(format, args...)})
}

func (s *Snapshot) warnActions(actions map[string]int) {
	names := make([]string, 0, len(actions))
	for name := range actions {
		names = append(names, name)
	}
	slices.SortFunc(names, func(a, b string) int { return cmp.Compare(a, b) })
	for _, name := range names[:min(len(names), 8)] {
		s.warn("unknown_action", "%d trace entries have the action %.40q, which is not known: they are kept and move no bytes", actions[name], name)
	}
}
