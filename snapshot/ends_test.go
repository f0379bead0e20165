package snapshot

import (
	"strings"
	"testing"

	"floodmark/internal/source"
)

// TestNoSegments: a file of traces alone says nothing of what was held before,
// so that every level counts from the first entry, and the end is a lower bound.
func TestNoSegments(t *testing.T) {
	s := read(t, object{{"device_traces", array{array{
		entryOf("segment_free", second<<4, 4<<20), entryOf("segment_alloc", first, 2<<20),
		entryOf("alloc", first, 500), entryOf("alloc", first+512, 600), entryOf("free_requested", first, 500), entryOf("free_completed", first, 500),
	}}}})
	r := s.Recordings()[0]
	if want := (Levels{Requested: 600, Allocated: 1024, Active: 1024, Reserved: 2 << 20}); r.EndKnown || r.End != want || !s.NoSegments {
		t.Errorf("the end is %+v, known %v; want %+v, unknown", r.End, r.EndKnown, want)
	}
	// What was given back had been there before.
	if p := r.Peaks(); p.Reserved != (Peak{4 << 20, -1}) || p.Requested != (Peak{1100, 3}) {
		t.Errorf("peaks %+v", p)
	}
	if len(r.Timeline.Warnings) != 1 || r.Timeline.Warnings[0].Code != "no_segments" {
		t.Errorf("warnings %v", r.Timeline.Warnings)
	}
	// An empty list of segments is known to be empty.
	s = read(t, object{{"segments", array{}}, {"device_traces", array{array{}}}})
	if r := s.Recordings()[0]; !r.EndKnown || r.End != (Levels{}) || s.NoSegments {
		t.Errorf("without a segment the end is %+v, known %v", r.End, r.EndKnown)
	}
}

// TestCountersContradict: what cannot be is said once, with its name.
func TestCountersContradict(t *testing.T) {
	block := func(state string) object {
		return object{{"address", first}, {"size", 512}, {"requested_size", 500}, {"state", state}}
	}
	segment := func(more ...member) object {
		s := append(object{{"address", first}, {"total_size", 512}}, more...)
		return object{{"segments", array{append(s, member{"blocks", array{block("active_allocated")}})}}}
	}
	for name, c := range map[string]struct {
		value object
		codes string
	}{
		"all agree":                    {segment(member{"allocated_size", 512}, member{"active_size", 512}, member{"requested_size", 500}), ""},
		"none is there":                {segment(), ""},
		"requested_size differs":       {segment(member{"requested_size", 400}), "blocks_contradict_segment"},
		"less active than allocated":   {segment(member{"active_size", 0}), "blocks_contradict_segment"},
		"more active than the segment": {segment(member{"allocated_size", 9999}, member{"active_size", 9999}), "blocks_contradict_segment"},
		"a small segment of 512 bytes": {segment(member{"segment_type", "small"}), "pool_contradicts_segment"},
		"the same, expandable":         {segment(member{"segment_type", "small"}, member{"is_expandable", true}), ""},
		"more blocks than the segment": {object{{"segments", array{object{{"address", first}, {"total_size", 256}, {"blocks", array{block("active_allocated")}}}}}},
			"blocks_do_not_fill_segment active_exceeds_reserved end_does_not_nest"},
		"more requested than a block that shrank": {append(segment(), member{"device_traces", array{array{entryOf("alloc", first, 4096)}}}),
			"sizes_differ requested_exceeds_active"},
	} {
		var codes []string
		for _, w := range read(t, c.value).Recordings()[0].Timeline.Warnings {
			codes = append(codes, w.Code)
		}
		if got := strings.Join(codes, " "); got != c.codes {
			t.Errorf("%s: warnings %q, want %q", name, got, c.codes)
		}
	}
}

// TestTrailingBytes: what follows the end is counted; blanks after JSON and the
// padding of a page are nothing.
func TestTrailingBytes(t *testing.T) {
	pickled, text := forms()[3].bytes(t, everything()), forms()[6].bytes(t, everything())
	for name, c := range map[string]struct{ data, says string }{
		"after STOP":            {string(pickled) + strings.Repeat("x", 10_000), "10000 bytes follow"},
		"after STOP, in a gzip": {string(zipped([]byte(string(pickled) + "\x00"))), "1 bytes follow"},
		"after a page's pickle": {string(page(append(pickled[:len(pickled):len(pickled)], make([]byte, 5)...))), "bytes follow"},
		"a page":                {string(page(pickled)), ""},
		"after JSON":            {string(text) + " \n{}", "2 bytes follow"},
		"blanks after JSON":     {string(text) + " \r\n", ""},
	} {
		s, err := Read(source.Bytes(name, []byte(c.data)))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		said := ""
		for _, w := range s.Warnings {
			said += w.Text
		}
		if (c.says == "") != (said == "") || !strings.Contains(said, c.says) {
			t.Errorf("%s: warnings %q, want %q", name, said, c.says)
		}
	}
}

// TestExpansion: a gzip that unpacks to more than a snapshot can shrink from is
// refused, with a way out.
func TestExpansion(t *testing.T) {
	head := "\x80\x04}\x94(\x8c\x08segments\x94]\x94"
	_, err := Read(source.Bytes("bomb", zipped([]byte(head+strings.Repeat("K\x010", 12<<20)))))
	if err == nil || err.Error() != "bomb: unpacks to more than 64 times its own length, which no snapshot does" {
		t.Errorf("got %v", err)
	}
	_, err = Read(source.Bytes("text", []byte(`{"segments": "`+strings.Repeat("a", 5<<20)+`"}`)))
	if err == nil || !strings.Contains(err.Error(), "a string or number is longer than the 4194304 bytes") {
		t.Errorf("got %v", err)
	}
}
