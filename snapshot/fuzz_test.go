package snapshot

import (
	"errors"
	"testing"

	"floodmark/internal/source"
)

// FuzzSnapshot: nothing panics; what is refused is another format or says what
// is wrong; what is read has a timeline that ends where its segments say.
func FuzzSnapshot(f *testing.F) {
	for _, form := range forms() {
		f.Add(form.bytes(f, everything()))
	}
	f.Add(forms()[3].bytes(f, oneSegment(array{blockAt(first, 512, 500, "active_pending_free")}, entryOf("free", second, 3), entryOf("alloc", first, 500))))
	f.Add([]byte("\x80\x02}(X\x08\x00\x00\x00segmentsctorch.jit._pickle\nrestore_type_tag\n(]X\x01\x00\x00\x00atRu."))
	f.Fuzz(func(t *testing.T, data []byte) {
		s, err := Read(source.Bytes("fuzz", data))
		if err != nil {
			var format *source.FormatError
			if !errors.Is(err, source.ErrNotThisFormat) && !errors.As(err, &format) {
				t.Fatalf("refused without a reason: %v", err)
			}
			return
		}
		for _, r := range s.Recordings() {
			checkRecording(t, s, r)
		}
	})
}

func checkRecording(t *testing.T, s *Snapshot, r *Recording) {
	t.Helper()
	tl := &r.Timeline
	if len(r.Entries) != len(tl.Events) || len(r.Blocks) != len(tl.Allocs) || len(r.Sizes) != len(tl.Allocs) || len(r.Addresses) != len(tl.Allocs) {
		t.Fatal("columns of one recording differ in length")
	}
	var last Levels
	r.Walk(func(_ int, l Levels) { last = l })
	if len(s.Segments) > 0 && (last.Requested != r.End.Requested || last.Reserved != r.End.Reserved || tl.EndRequested() != last.Requested) && len(tl.Warnings) == 0 {
		t.Fatalf("ends at %+v, the segments say %+v, and nothing warns", last, r.End)
	}
	at := 0
	for _, p := range tl.Phases {
		if p.First != at || p.Last < p.First {
			t.Fatalf("phases do not follow one another: %+v", tl.Phases)
		}
		at = p.Last
	}
	if at != len(tl.Events) {
		t.Fatalf("phases end at %d of %d events", at, len(tl.Events))
	}
	for _, stack := range r.Trace.Stack {
		for _, f := range s.Stacks.Stack(stack) {
			s.Stacks.Function(f)
		}
	}
}
