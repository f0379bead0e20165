package snapshot

import (
	"errors"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"floodmark/internal/source"
	"floodmark/timeline"
)

// TestHistory reads PyTorch 2.0's blocks: no address, and the owner in a list
// whose first entry is the current one.
func TestHistory(t *testing.T) {
	owner := func(requested int, name string) object {
		return object{{"addr", first}, {"real_size", requested}, {"frames", array{frame(name, 1)}}}
	}
	s := read(t, object{
		{"segments", array{object{
			{"device", 0}, {"address", first}, {"total_size", 2 << 20}, {"allocated_size", 1024}, {"active_size", 1024}, {"stream", 0}, {"segment_type", "small"},
			{"blocks", array{
				object{{"size", 1024}, {"state", "active_allocated"}, {"history", array{owner(1000, "now"), owner(900, "earlier")}}},
				object{{"size", 2<<20 - 1024}, {"state", "inactive"}, {"history", array{owner(4, "gone")}}},
			}},
		}}},
		{"device_traces", array{array{}}},
	})
	want := []Block{
		{Address: first, Size: 1024, Requested: 1000, State: Allocated, Stack: 0},
		{Address: first + 1024, Size: 2<<20 - 1024, State: Inactive, Stack: 2},
	}
	for i := range s.Blocks {
		s.Blocks[i].placed = false
	}
	if diff := cmp.Diff(want, s.Blocks, cmp.AllowUnexported(Block{})); diff != "" {
		t.Error(diff)
	}
	if name := s.Stacks.Function(s.Stacks.Stack(s.Blocks[0].Stack)[0]); name != "now" {
		t.Errorf("the owner is %q", name)
	}
}

// TestOtherRoots reads what is not the dict of _snapshot().
func TestOtherRoots(t *testing.T) {
	segments := oneSegment(array{blockAt(first, 512, 500, "active_allocated")})[0].value
	for name, value := range map[string]any{
		"the list of memory_snapshot()": segments,
		"segments only":                 object{{"segments", segments}},
		"settings first":                object{{"allocator_settings", object{{"max_split_size", -1}}}, {"device_traces", array{array{}}}, {"segments", segments}},
		"None for an absent list":       object{{"segments", segments}, {"device_traces", array{}}},
	} {
		t.Run(name, func(t *testing.T) {
			r := read(t, value).Recordings()
			if len(r) != 1 || r[0].Timeline.EndRequested() != 500 || r[0].Timeline.Truncated {
				t.Errorf("%d devices, %+v", len(r), r)
			}
		})
	}
	if r := read(t, object{{"segments", array{}}, {"device_traces", array{array{}}}}).Recordings(); len(r) != 1 || r[0].End != (Levels{}) {
		t.Errorf("an empty snapshot has %d devices", len(r))
	}
}

// TestHost keeps the pinned allocator's lists apart from the devices.
func TestHost(t *testing.T) {
	value := oneSegment(array{}, entryOf("segment_alloc", first, 2<<20))
	host := object{{"address", uint64(4096)}, {"total_size", 8192}, {"blocks", array{blockAt(4096, 8192, 8000, "active_allocated")}}}
	s := read(t, append(value, member{"host_segments", array{host}}, member{"host_traces", array{array{entryOf("alloc", 4096, 8000)}}}))
	if len(s.Segments) != 1 || len(s.HostSegments) != 1 || s.HostSegments[0].Total != 8192 || len(s.HostTraces) != 1 || s.HostTraces[0].Len() != 1 {
		t.Errorf("%d segments, %d of the host", len(s.Segments), len(s.HostSegments))
	}
	if r := s.Recordings(); len(r) != 1 || r[0].End.Reserved != 2<<20 || r[0].Trace.Len() != 1 {
		t.Errorf("the host's memory is counted on a device")
	}
}

// TestNotASnapshot hands other formats on by their first bytes.
func TestNotASnapshot(t *testing.T) {
	for name, data := range map[string]string{
		"nothing":                          "",
		"text":                             "CUDA out of memory. Tried to allocate 20.00 MiB",
		"another JSON":                     `{"model_type": "llama", "segments": []}`,
		"a JSON list":                      `[1, 2]`,
		"an empty JSON list":               `[]`,
		"another pickle":                   "\x80\x04}\x94\x8c\x06weight\x94K\x01s.",
		"a checkpoint":                     "\x80\x02\x8a\x0al\xfc\x9cF\xf9 j\xa8P\x19.",
		"an empty dict":                    "\x80\x04}\x94.",
		"a zip":                            "PK\x03\x04",
		"a page":                           "<html><body>base64 is a code</body></html>",
		"gzip of text":                     string(zipped([]byte("hello"))),
		"gzip, damaged":                    "\x1f\x8b\x08",
		"a truncated head":                 "\x80\x04}\x94\x8c\x08segm",
		"a dict that only begins like one": "\x80\x04}\x94\x8c\x0acategories\x94]\x94s.",
	} {
		if s, err := Read(source.Bytes(name, []byte(data))); !errors.Is(err, source.ErrNotThisFormat) {
			t.Errorf("%s: %v, %v", name, s, err)
		}
	}
}

// TestMalformed: what begins as a snapshot and breaks its rules is refused with
// the field or the offset.
func TestMalformed(t *testing.T) {
	segment := func(m ...member) object {
		return object{{"segments", array{append(object{{"address", first}, {"total_size", 512}}, m...)}}}
	}
	trace := func(entries ...any) object { return object{{"device_traces", array{array(entries)}}} }
	blocks := func(b ...any) object { return segment(member{"blocks", array(b)}) }
	huge := 1 << 60
	twice := object{{"action", "snapshot"}}
	settings := func(m ...member) object { return object{{"segments", array{}}, {"allocator_settings", object(m)}} }
	often, held := array{entryOf("alloc", 1, 1)}, array{blockAt(first, 512, 500, "active_allocated")}
	around := func(blocks *array) object {
		return object{{"address", first}, {"total_size", 512}, {"blocks", blocks}}
	}
	free := object{{"size", 512}, {"requested_size", 4096}, {"state", "inactive"}} // what its last owner left
	for name, c := range map[string]struct {
		value any
		says  string
	}{
		"an entry without an address":        {trace(object{{"action", "alloc"}, {"size", 1}}), "device_traces[0][0].addr: is missing"},
		"an entry without a size":            {trace(object{{"action", "alloc"}, {"addr", 1}}), "device_traces[0][0].size: is missing"},
		"a negative size":                    {trace(entryOf("alloc", 1, -1)), "device_traces[0][0].size: is -1, expected a number of bytes from 0"},
		"a size that is text":                {trace(object{{"action", "alloc"}, {"addr", 1}, {"size", "1"}}), `device_traces[0][0].size: is the string "1", expected`},
		"an action that is a number":         {trace(object{{"action", 1}}), "device_traces[0][0].action: is 1, expected a string"},
		"frames that are text":               {trace(entryOf("alloc", 1, 1, member{"frames", "main"})), `device_traces[0][0].frames: is the string "main", expected a list of frames`},
		"a frame that is text":               {trace(entryOf("alloc", 1, 1, member{"frames", array{frame("a", 1), "b"}})), `device_traces[0][0].frames: holds the string "b", expected a frame`},
		"a pool of three":                    {trace(entryOf("alloc", 1, 1, member{"pool_id", array{1, 2, 3}})), "device_traces[0][0].pool_id: is a list, expected two integers"},
		"an entry in two places":             {trace(&twice, &twice), "device_traces[0]: holds a dict that stands in two places"},
		"a trace in two places":              {object{{"device_traces", array{&often, &often}}}, "device_traces: holds a list of entries that stands in two places"},
		"blocks in two places":               {object{{"segments", array{around(&held), around(&held)}}}, "segments[1]: holds a list of blocks that stands in two places"},
		"entries and others":                 {trace(entryOf("alloc", 1, 1), "x"), `device_traces[0]: holds the string "x", expected more of the same`},
		"traces that are no lists":           {object{{"device_traces", array{1}}}, "device_traces: is a list, expected a list of dicts"},
		"traces and others":                  {object{{"device_traces", array{array{}, 1}}}, "device_traces: holds 1, expected a list of entries"},
		"a state that nobody knows":          {blocks(object{{"size", 1}, {"state", "borrowed"}}), `segments[0].blocks[0].state: is "borrowed"`},
		"a block without a size":             {blocks(object{{"state", "inactive"}}), "segments[0].blocks[0].size: is missing"},
		"blocks that are no list":            {segment(member{"blocks", 1}), "segments[0].blocks: is 1, expected a list"},
		"blocks that are something else":     {segment(member{"blocks", array{1, "x"}}), "segments[0].blocks: is a list, expected a list of dicts"},
		"a segment without an address":       {object{{"segments", array{object{{"total_size", 1}}}}}, "segments[0].address: is missing"},
		"a device far away":                  {segment(member{"device", 1 << 40}), "segments[0].device: is 1099511627776"},
		"segments that are text":             {object{{"segments", "none"}}, `segments: is the string "none"`},
		"annotations that are text":          {object{{"segments", array{}}, {"external_annotations", "none"}}, `external_annotations: is the string "none"`},
		"sizes beyond 60 bits":               {trace(entryOf("alloc", 1, huge), entryOf("alloc", 2, huge)), "device_traces[0][0].size: is 1152921504606846976: the sizes add up to more than 60 bits"},
		"a block of a size beyond 60 bits":   {blocks(object{{"size", huge}, {"state", "inactive"}}), "segments[0].blocks[0].size: is 1152921504606846976"},
		"a segment of a size beyond 60 bits": {object{{"segments", array{object{{"address", 1}, {"total_size", huge}}}}}, "segments[0].total_size: is 1152921504606846976"},
		"counters beyond 60 bits": {object{{"segments", array{
			object{{"address", 1}, {"total_size", 512}, {"allocated_size", math.MaxInt64}}, object{{"address", 2}, {"total_size", 512}, {"allocated_size", 512}}}}},
			"segments[0].allocated_size: is 9223372036854775807: the sizes add up to more than 60 bits"},
		"active_size beyond 60 bits":       {segment(member{"active_size", math.MaxInt64}), "segments[0].active_size: is 9223372036854775807"},
		"requested_size beyond 60 bits":    {segment(member{"requested_size", math.MaxInt64}), "segments[0].requested_size: is 9223372036854775807"},
		"a request larger than its block":  {blocks(free, object{{"size", 512}, {"requested_size", 513}, {"state", "active_allocated"}}), "segments[0].blocks[1].requested_size: is 513, more than the 512 bytes of the block"},
		"the same, while its free waits":   {blocks(object{{"size", 512}, {"requested_size", 513}, {"state", "active_pending_free"}}), "segments[0].blocks[0].requested_size: is 513"},
		"the same, in PyTorch 2.0's form":  {blocks(object{{"size", 512}, {"state", "active_allocated"}, {"history", array{object{{"real_size", 513}, {"addr", 1}}}}}), "segments[0].blocks[0].history[0].real_size: is 513"},
		"two lists of segments":            {object{{"segments", array{}}, {"device_traces", array{}}, {"segments", array{}}}, "segments: stands twice in one dict"},
		"two sizes of an entry, far down":  {trace(append(slices.Repeat([]any{entryOf("alloc", 1, 1)}, 2500), entryOf("alloc", 1, 1, member{"size", 2}))...), "device_traces[0][2500].size: stands twice in one dict"},
		"an entry of the second device":    {object{{"device_traces", array{array{entryOf("alloc", 1, 1)}, array{entryOf("alloc", 1, 1), entryOf("alloc", 1, -5)}}}}, "device_traces[1][1].size: is -5"},
		"a line of a frame that is a text": {trace(entryOf("alloc", 1, 1, member{"frames", array{object{{"name", "f"}, {"line", "x"}}}})), `device_traces[0][0].frames[0].line: is the string "x", expected an integer`},
		"a setting that is a text":         {object{{"segments", array{}}, {"allocator_settings", object{{"max_split_size", "x"}}}}, `allocator_settings.max_split_size: is the string "x"`},
		"a share above 1":                  {settings(member{"garbage_collection_threshold", 1.5}), "allocator_settings.garbage_collection_threshold: is 1.5, expected a share from 0 to below 1"},
		"a share below 0":                  {settings(member{"garbage_collection_threshold", -5}), "allocator_settings.garbage_collection_threshold: is -5, expected"},
		"a split size below -1":            {settings(member{"max_split_size", -2}), "allocator_settings.max_split_size: is -2, expected"},
		"divisions that are text":          {settings(member{"max_split_size", -1}, member{"roundup_power2_divisions", "4"}), `allocator_settings.roundup_power2_divisions: is the string "4", expected a dict of numbers`},
		"divisions below 0":                {settings(member{"max_split_size", -1}, member{"roundup_power2_divisions", object{{"1", -4}}}), "allocator_settings.roundup_power2_divisions: is a dict, expected numbers"},
		"settings that are text":           {object{{"segments", array{}}, {"allocator_settings", "none"}}, `allocator_settings: is the string "none", expected a dict of settings`},
		"a bool that is neither":           {segment(member{"is_expandable", -1}), "segments[0].is_expandable: is -1, expected a bool"},
		"traces of more devices than are":  {object{{"segments", array{}}, {"device_traces", slices.Repeat(array{array{}}, 1025)}}, "device_traces: holds the traces of 1025 devices, more than the 1024"},
	} {
		t.Run(name, func(t *testing.T) {
			for _, f := range []form{forms()[0], forms()[3], forms()[5], forms()[6]} {
				if f.name == "JSON" && strings.HasSuffix(name, "in two places") {
					continue
				}
				_, err := Read(source.Bytes("fixture", f.bytes(t, c.value)))
				var format *source.FormatError
				if !errors.As(err, &format) || !strings.Contains(err.Error(), c.says) || !strings.HasPrefix(err.Error(), "fixture: ") {
					t.Errorf("%s: got %v, want %s", f.name, err, c.says)
				}
			}
		})
	}
}

// TestNotANumber: a share that JSON cannot write.
func TestNotANumber(t *testing.T) {
	value := object{{"segments", array{}}, {"allocator_settings", object{{"max_split_size", -1}, {"garbage_collection_threshold", math.NaN()}}}}
	_, err := Read(source.Bytes("fixture", forms()[3].bytes(t, value)))
	if err == nil || !strings.Contains(err.Error(), "garbage_collection_threshold: is NaN, expected a share") {
		t.Errorf("got %v", err)
	}
}

// TestDamaged: damage that shows only after the first bytes.
func TestDamaged(t *testing.T) {
	pickled := forms()[3].bytes(t, everything())
	zip := zipped(pickled)
	html := page(pickled)
	begin := "{\"segments\": "
	for name, data := range map[string][]byte{
		"a gzip that ends too early":    zip[:len(zip)-20],
		"a page that ends too early":    html[:len(html)-200],
		"base64 with a strange letter":  []byte(strings.Replace(string(html), `"base64": "g`, `"base64": "g*`, 1)),
		"code in a snapshot":            []byte("\x80\x04}\x94(\x8c\x08segments\x94cos\nsystem\n)R."),
		"a type tag on nothing":         []byte("\x80\x02}(X\x08\x00\x00\x00segmentsctorch.jit._pickle\nbuild_intlist\n)Ru."),
		"JSON that ends too early":      []byte(begin + "[{"),
		"JSON that is none":             []byte(begin + "[}"),
		"JSON that nests":               []byte(begin + strings.Repeat("[", 1000)),
		"JSON with a number of no size": []byte(begin + "1e999}"),
	} {
		_, err := Read(source.Bytes(name, data))
		var format *source.FormatError
		if !errors.As(err, &format) || format.File != name {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

// TestTypeTags takes the tags that some of PyTorch's C++ picklers write: they
// are the identity on their first argument.
func TestTypeTags(t *testing.T) {
	// {"segments": restore_type_tag([], "List[Any]"), "device_traces": [[]]}
	const text = "X\x08\x00\x00\x00segmentsctorch.jit._pickle\nrestore_type_tag\n(]X\x09\x00\x00\x00List[Any]tR" +
		"X\x0d\x00\x00\x00device_traces](](eeu."
	s, err := Read(source.Bytes("tags", []byte("\x80\x02}("+text)))
	if err != nil || len(s.Traces) != 1 {
		t.Errorf("%+v, %v", s, err)
	}
}

// TestCutAnywhere: a snapshot that ends too early is an error wherever it ends.
func TestCutAnywhere(t *testing.T) {
	real, err := os.ReadFile(filepath.Join("testdata", "real", "docubox.pickle"))
	if err != nil {
		t.Fatal(err)
	}
	whole := map[string][]byte{"real": real}
	for _, f := range forms() {
		whole[f.name] = f.bytes(t, everything())
	}
	for name, data := range whole {
		cut := len(data)
		if name == "HTML" || name == "gzip of HTML" {
			// The pickle ends before its page does.
			cut -= 64
		}
		for n := range cut {
			if _, err := Read(source.Bytes("cut", data[:n])); err == nil {
				t.Fatalf("%s: cut at %d of %d bytes, it is read", name, n, len(data))
			}
		}
	}
}

// TestUnknownAction keeps an entry that it does not know, and says so.
func TestUnknownAction(t *testing.T) {
	s := read(t, oneSegment(array{}, object{{"action", "workspace_snapshot"}, {"size", 5}}, object{{"action", "teleport"}}))
	if s.Traces[0].Len() != 2 || s.Traces[0].Action[1] != OtherAction || len(s.Warnings) != 2 {
		t.Errorf("%+v, %v", s.Traces[0], s.Warnings)
	}
	if n := len(s.Recordings()[0].Timeline.Events); n != 0 {
		t.Errorf("%d events", n)
	}
}

// TestStacks: equal stacks have one index, whatever lists they come from, and
// the frames that recorded them are left out.
func TestStacks(t *testing.T) {
	a, b, noise := frame("a", 1), frame("b", 2), frame("torch::CapturedTraceback::gather(bool, bool, bool)", 0)
	copied := *a
	s := read(t, oneSegment(array{},
		entryOf("alloc", 1, 1, member{"frames", array{noise, a, b}}), entryOf("alloc", 2, 1, member{"frames", array{&copied, b}}),
		entryOf("alloc", 3, 1, member{"frames", array{b}}), entryOf("alloc", 4, 1, member{"frames", array{}}), entryOf("alloc", 5, 1),
		entryOf("alloc", 6, 1, member{"frames", array{noise, noise}})))
	if diff := cmp.Diff([]uint32{0, 0, 1, timeline.NoStack, timeline.NoStack, 2}, s.Traces[0].Stack); diff != "" {
		t.Error(diff)
	}
	if len(s.Stacks.Stack(2)) != 0 || s.Stacks.Len() != 3 {
		t.Errorf("%d stacks", s.Stacks.Len())
	}
}

// TestAllocations pins what an entry costs: columns grow now and then, nothing
// is taken for the entry itself.
func TestAllocations(t *testing.T) {
	count := func(n int) float64 {
		data := loopBytes(t, n)
		return testing.AllocsPerRun(3, func() {
			if _, err := Read(source.Bytes("loop", data)); err != nil {
				t.Error(err)
			}
		})
	}
	const few, many = 4000, 8000
	if each := (count(many) - count(few)) / (many - few); each > 0.02 {
		t.Errorf("%.3f allocations an entry", each)
	}
}

func loopBytes(t testing.TB, n int) []byte {
	t.Helper()
	var b strings.Builder
	e := newPythonEncoder(&b, 4)
	newLoop(n, 200).write(e)
	if err := e.close(); err != nil {
		t.Fatal(err)
	}
	return []byte(b.String())
}
