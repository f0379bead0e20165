package snapshot

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"floodmark/internal/source"
	"floodmark/timeline"
)

// form is a way in which a snapshot can be written.
type form struct {
	name string
	of   func(io.Writer) encoder
	wrap func([]byte) []byte
}

// forms lists the encodings, and the wrappings of one of them.
func forms() []form {
	list := []form{{name: "C++", of: func(w io.Writer) encoder { return newTorchEncoder(w) }}}
	for _, protocol := range []int{2, 3, 4, 5} {
		list = append(list, form{name: fmt.Sprintf("protocol %d", protocol), of: func(w io.Writer) encoder { return newPythonEncoder(w, protocol) }})
	}
	python := list[3].of
	return append(list,
		form{name: "protocol 0", of: func(w io.Writer) encoder { return newZeroEncoder(w) }},
		form{name: "JSON", of: func(w io.Writer) encoder { return newJSONEncoder(w) }},
		form{name: "gzip", of: python, wrap: zipped},
		form{name: "HTML", of: python, wrap: page},
		form{name: "gzip of HTML", of: python, wrap: func(b []byte) []byte { return zipped(page(b)) }},
	)
}

func zipped(b []byte) []byte {
	var out bytes.Buffer
	z := gzip.NewWriter(&out)
	z.Write(b)
	z.Close()
	return out.Bytes()
}

// page is what torch.cuda._memory_viz makes: the pickle, padded with NULs.
func page(b []byte) []byte {
	b = append(bytes.Clone(b), make([]byte, (3-len(b)%3)%3)...)
	return []byte("<!DOCTYPE html>\n<html><script>" + strings.Repeat(" ", 5000) + `let s = "base64";` +
		`add_local_files([{"name": "snapshot.pickle", "base64": "` + base64.StdEncoding.EncodeToString(b) + `"}], "Active Memory Timeline")</script></html>`)
}

func (f form) bytes(t testing.TB, value any) []byte {
	t.Helper()
	var b bytes.Buffer
	e := f.of(&b)
	encode(e, value)
	if err := e.close(); err != nil {
		t.Fatal(err)
	}
	if f.wrap != nil {
		return f.wrap(b.Bytes())
	}
	return b.Bytes()
}

// read reads a value in CPython's protocol 4.
func read(t testing.TB, value any) *Snapshot {
	t.Helper()
	s, err := Read(source.Bytes("fixture", forms()[3].bytes(t, value)))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func frame(name string, line int) *object {
	return &object{{"name", name}, {"filename", "model.py"}, {"line", line}}
}

// entryOf is a trace entry with the given items after the first four.
func entryOf(action string, addr uint64, size int, more ...member) object {
	return append(object{{"action", action}, {"addr", addr}, {"size", size}, {"stream", 0}}, more...)
}

// everything has what PyTorch 2.12 can write: two devices, a private pool, a
// stream handle of 64 bits, a pending free, a failure, annotations of both kinds
// and a key that nobody knows.
func everything() object {
	forward, unwind := frame("forward", 12), frame("torch::unwind::unwind()", 0)
	stack := &array{unwind, forward, frame("main", 3)}
	const stream, base, big = uint64(1)<<63 + 5, uint64(0x7f00_0000_0000), uint64(0xffff_8000_0000_0000)
	at := func(us int) member { return member{"time_us", 1_700_000_000_000_000 + us} }
	pool := member{"pool_id", pair{0, 1}}
	inPool := func(action string, size, us int) object {
		return object{{"action", action}, {"addr", base + 4<<20}, {"size", size}, {"stream", stream}, at(us), pool}
	}
	segment := func(device int, address uint64, total int, blocks array, more ...member) object {
		return append(object{{"device", device}, {"address", address}, {"total_size", total}, {"blocks", blocks}}, more...)
	}
	block := func(address uint64, size, requested int, state string) object {
		return object{{"address", address}, {"size", size}, {"requested_size", requested}, {"state", state}, {"frames", stack}}
	}
	return object{
		{"segments", array{
			segment(0, base, 2<<20, array{
				block(base, 1024, 1000, "active_allocated"),
				block(base+1024, 512, 500, "active_awaiting_free"),
				block(base+1536, 2<<20-1536, 77, "inactive"),
			}, member{"segment_type", "small"}, member{"is_expandable", true}, member{"frames", array{}}),
			segment(0, base+(4<<20), 20<<20, array{
				block(base+(4<<20), 20<<20, 2<<20, "active_allocated"),
			}, member{"stream", stream}, member{"segment_pool_id", pair{0, 1}}),
			segment(3, big, 2<<20, array{block(big, 2<<20, 0, "inactive")}),
		}},
		{"device_traces", array{
			array{
				entryOf("segment_alloc", base, 2<<20, at(0)),
				entryOf("alloc", base, 1000, at(1), member{"frames", stack}, member{"user_metadata", fresh("forward")}),
				entryOf("alloc", base+1024, 500, at(2), member{"frames", stack}, member{"user_metadata", fresh("forward")}),
				entryOf("annotate", base+1024, 0, at(3), member{"user_metadata", "the mask"}),
				entryOf("free_requested", base+1024, 500, at(4), member{"user_metadata", ""}),
				object{{"action", "oom"}, {"size", 4 << 30}, {"stream", stream}, {"device_free", 123456}, at(5), {"compile_context", "0/1"}},
				inPool("segment_alloc", 20<<20, 6),
				append(inPool("alloc", 2<<20, 7), member{"stranger", array{1, "x", object{}}}),
			},
			array{}, array{}, array{},
		}},
		{"allocator_settings", object{
			{"PYTORCH_CUDA_ALLOC_CONF", "expandable_segments:True"}, {"max_split_size", -1}, {"garbage_collection_threshold", 0.5},
			{"expandable_segments", true}, {"roundup_power2_divisions", object{{"1", 0}, {"2", 4}}}, {"new_setting", 1},
		}},
		{"external_annotations", array{
			object{{"name", "Optimizer.step#AdamW.step"}, {"stage", "START"}, {"device", 0}, at(6)},
			object{{"stage", "END"}, {"name", "Optimizer.step#AdamW.step"}, {"device", 0}, at(9)},
		}},
		{"somebody_elses", object{{"a", object{{"b", array{}}}}}},
	}
}

// TestForms reads the same content from every form.
func TestForms(t *testing.T) {
	want := read(t, everything())
	for _, f := range forms() {
		t.Run(f.name, func(t *testing.T) {
			got, err := Read(source.Bytes("fixture", f.bytes(t, everything())))
			if err != nil {
				t.Fatal(err)
			}
			// Strings come in another order in some forms; what they say is
			// compared through the recordings.
			ignore := cmpopts.IgnoreFields(Snapshot{}, "Stacks", "Traces")
			if diff := cmp.Diff(want, got, ignore, cmpopts.IgnoreUnexported(Block{})); diff != "" {
				t.Error(diff)
			}
			for i, r := range got.Recordings() {
				if diff := cmp.Diff(story(want, want.Recordings()[i]), story(got, r)); diff != "" {
					t.Error(diff)
				}
			}
		})
	}
}

// story spells a recording out, without any index into a table.
func story(s *Snapshot, r *Recording) []string {
	var lines []string
	for i := range r.Trace.Len() {
		t := r.Trace
		line := fmt.Sprintf("%d %s %#x %d stream %d", i, t.Action[i], t.Addr[i], t.Size[i], s.Streams[t.Stream[i]])
		for _, f := range s.Stacks.Stack(t.Stack[i]) {
			line += fmt.Sprintf(" %s:%d", s.Stacks.Function(f), s.Stacks.Line(f))
		}
		if t.Pool != nil {
			line += fmt.Sprint(" pool ", s.Pools[t.Pool[i]])
		}
		if t.Time != nil {
			line += fmt.Sprint(" at ", t.Time[i]%1000)
		}
		if t.Context != nil {
			line += " context " + s.text(t.Context[i])
		}
		if t.Metadata != nil {
			line += " metadata " + s.text(t.Metadata[i])
		}
		lines = append(lines, line)
	}
	for k, e := range r.Timeline.Events {
		line := fmt.Sprintf("event %d before or at %d: ", k, r.Entries[k])
		switch e.Kind {
		case timeline.OutOfMemory:
			line += fmt.Sprintf("%+v, capacity %d", r.Timeline.Failures[e.Alloc].Requested, r.Failures[e.Alloc].Capacity)
		default:
			a := r.Timeline.Allocs[e.Alloc]
			line += fmt.Sprintf("kind %d of %d bytes at %#x, space %d", e.Kind, a.Requested, r.Addresses[e.Alloc], a.Space)
		}
		lines = append(lines, line)
	}
	for _, a := range r.Timeline.Before {
		lines = append(lines, fmt.Sprintf("before: %d bytes at %#x", r.Timeline.Allocs[a].Requested, r.Addresses[a]))
	}
	r.Walk(func(entry int, l Levels) { lines = append(lines, fmt.Sprintf("after %d: %+v", entry, l)) })
	for _, p := range r.Timeline.Phases {
		lines = append(lines, fmt.Sprintf("phase {Phase:%s Step:%d First:%d Last:%d}", p.Phase, p.Step, p.First, p.Last))
	}
	for _, i := range r.Intervals {
		lines = append(lines, fmt.Sprintf("interval %+v", i))
	}
	for _, w := range r.Timeline.Warnings {
		lines = append(lines, w.Code)
	}
	return lines
}

// TestEverything looks at what the fixture holds.
func TestEverything(t *testing.T) {
	s := read(t, everything())
	wantUnknown := []UnknownKey{{"entry", "stranger", 1}, {"settings", "new_setting", 1}, {"snapshot", "somebody_elses", 1}}
	if diff := cmp.Diff(wantUnknown, s.Unknown); diff != "" {
		t.Error(diff)
	}
	wantSettings := &Settings{
		Conf: "expandable_segments:True", MaxSplitSize: -1, GarbageCollectionThreshold: 0.5, ExpandableSegments: true,
		PinnedNumRegisterThreads: 1, Roundups: []Roundup{{1, 0}, {2, 4}},
	}
	if diff := cmp.Diff(wantSettings, s.Settings); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]uint64{0, 1<<63 + 5}, s.Streams); diff != "" {
		t.Error(diff)
	}
	recordings := s.Recordings()
	if len(recordings) != 4 || recordings[3].End.Reserved != 2<<20 || recordings[1].End.Reserved != 0 {
		t.Fatalf("%d devices; the segment of device 3 is not with it", len(recordings))
	}
	want := []string{
		"0 segment_alloc 0x7f0000000000 2097152 stream 0 pool {0 0} at 0 context  metadata ",
		"1 alloc 0x7f0000000000 1000 stream 0 forward:12 main:3 pool {0 0} at 1 context  metadata forward",
		"2 alloc 0x7f0000000400 500 stream 0 forward:12 main:3 pool {0 0} at 2 context  metadata forward",
		"3 annotate 0x7f0000000400 0 stream 0 pool {0 0} at 3 context  metadata the mask",
		"4 free_requested 0x7f0000000400 500 stream 0 pool {0 0} at 4 context  metadata ",
		"5 oom 0x1e240 4294967296 stream 9223372036854775813 pool {0 0} at 5 context 0/1 metadata ",
		"6 segment_alloc 0x7f0000400000 20971520 stream 9223372036854775813 pool {0 1} at 6 context  metadata ",
		"7 alloc 0x7f0000400000 2097152 stream 9223372036854775813 pool {0 1} at 7 context  metadata ",
		"event 0 before or at 1: kind 0 of 1000 bytes at 0x7f0000000000, space 0",
		"event 1 before or at 2: kind 0 of 500 bytes at 0x7f0000000400, space 0",
		"event 2 before or at 4: kind 1 of 500 bytes at 0x7f0000000400, space 0",
		"event 3 before or at 5: 4294967296, capacity 2220608",
		"event 4 before or at 7: kind 0 of 2097152 bytes at 0x7f0000400000, space 1",
		"after -1: {Requested:0 Allocated:0 Active:0 Reserved:0}",
		"after 0: {Requested:0 Allocated:0 Active:0 Reserved:2097152}",
		"after 1: {Requested:1000 Allocated:1024 Active:1024 Reserved:2097152}",
		"after 2: {Requested:1500 Allocated:1536 Active:1536 Reserved:2097152}",
		"after 3: {Requested:1500 Allocated:1536 Active:1536 Reserved:2097152}",
		"after 4: {Requested:1500 Allocated:1024 Active:1536 Reserved:2097152}",
		"after 5: {Requested:1500 Allocated:1024 Active:1536 Reserved:2097152}",
		"after 6: {Requested:1500 Allocated:1024 Active:1536 Reserved:23068672}",
		"after 7: {Requested:2098652 Allocated:20972544 Active:20973056 Reserved:23068672}",
		"phase {Phase:forward Step:1 First:0 Last:2}",
		"phase {Phase:recorded Step:0 First:2 Last:4}",
		"phase {Phase:optimizer_step Step:1 First:4 Last:5}",
		"interval {Name:forward First:1 Last:4}",
		"interval {Name:the mask First:3 Last:4}",
		"interval {Name:Optimizer.step#AdamW.step First:6 Last:8}",
	}
	if diff := cmp.Diff(want, story(s, recordings[0])); diff != "" {
		t.Error(diff)
	}
	if outside, ok := recordings[0].Failures[0].Outside(24 << 30); !ok || outside != 24<<30-2220608 {
		t.Errorf("outside the allocator are %d, %v", outside, ok)
	}
}

// readFile reads a snapshot from its file.
func readFile(t testing.TB, path string) *Snapshot {
	t.Helper()
	src, err := source.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer src.Close()
	s, err := Read(src)
	if err != nil {
		t.Fatal(err)
	}
	return s
}
