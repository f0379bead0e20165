package snapshot

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"testing"
)

// A large file in the shape of real ones, to measure with:
//
//	go test ./snapshot -run TestLarge -large /tmp/million.pickle -events 1000000
//	go test -c ./snapshot
//	/usr/bin/time -v ./snapshot.test -test.run TestLarge -large /tmp/million.pickle -events 0
var (
	largePath   = flag.String("large", "", "where the large snapshot is written and read; a file that goes away otherwise")
	largeEvents = flag.Int("events", 3001, "trace entries to write; 0 reads what -large names")
)

// TestLarge reads a long trace and finds that its entries lead to its segments.
func TestLarge(t *testing.T) {
	path := *largePath
	if path == "" {
		path = filepath.Join(t.TempDir(), "loop.pickle")
	}
	if *largeEvents > 0 {
		writeLoop(t, path, *largeEvents)
	}
	s := readFile(t, path)
	for _, r := range s.Recordings() {
		t.Logf("%d entries, %d stacks, peaks %+v, end %+v", r.Trace.Len(), s.Stacks.Len(), r.Peaks(), r.End)
		if len(r.Timeline.Warnings) > 0 || r.Timeline.EndRequested() != r.End.Requested {
			t.Errorf("%v, requested ends at %d", r.Timeline.Warnings, r.Timeline.EndRequested())
		}
	}
}

func writeLoop(t *testing.T, path string, n int) {
	t.Helper()
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	e := newPythonEncoder(f, 4)
	newLoop(n, 12_000).write(e)
	if err := errors.Join(e.close(), f.Close()); err != nil {
		t.Fatal(err)
	}
}

// loop is a training loop of n entries: a window of live allocations, 900
// frames that all stacks share, distinct stacks of 26 to 41 frames, and a fresh
// list of frames and two fresh strings for every entry. Counted in 78 public
// files: 216 bytes an entry, 37 thousand distinct frames and 271 thousand lists
// for 413 thousand entries.
type loop struct {
	n      int
	state  uint64
	frames []*object
	stacks [][]int
}

// window is how many allocations live at once; each has a segment of 4 MiB.
const window = 300

func newLoop(n, stacks int) *loop {
	l := &loop{n: n, state: 1}
	for i := range 900 {
		l.frames = append(l.frames, &object{
			{"name", fmt.Sprintf("at::native::function_%d(at::Tensor const&, long)", i)},
			{"filename", fmt.Sprintf("project/module_%d.py", i%60)},
			{"line", 10 + i},
		})
	}
	for range stacks {
		stack := make([]int, 26+l.random(16))
		for k := range stack {
			stack[k] = l.random(len(l.frames))
		}
		l.stacks = append(l.stacks, stack)
	}
	return l
}

func (l *loop) random(below int) int {
	l.state = l.state*6364136223846793005 + 1442695040888963407
	return int(l.state >> 33 % uint64(below))
}

func (l *loop) size(i int) int { return 512 * (1 + (i*2654435761)%4000) }

func (l *loop) addr(i int) uint64 { return 0x7f00_0000_0000 + uint64(i%(2*window))<<22 }

// list is the stack of entry i: a loop repeats its stacks in order.
func (l *loop) list(i int) array {
	list := array{}
	for _, f := range l.stacks[i%len(l.stacks)] {
		list = append(list, l.frames[f])
	}
	return list
}

func (l *loop) event(i int) object {
	action, which := "alloc", i/3
	switch {
	case i/3 >= window && i%3 == 1:
		action, which = "free_requested", i/3-window
	case i/3 >= window && i%3 == 2:
		action, which = "free_completed", i/3-window
	case i%3 > 0:
		action, which = "snapshot", 0
	}
	return object{
		{"action", action}, {"addr", l.addr(which)}, {"size", l.size(which)}, {"stream", 0},
		{"time_us", 1783874588218846 + i*13}, {"compile_context", fresh("N/A")}, {"user_metadata", fresh("")}, {"frames", l.list(i)},
	}
}

// segments holds what is alive after n entries.
func (l *loop) segments() array {
	owner := map[uint64]object{}
	for i := range l.n {
		switch e := l.event(i); e[0].value {
		case "alloc":
			owner[e[1].value.(uint64)] = object{{"size", e[2].value}, {"requested_size", e[2].value}, {"address", e[1].value}, {"state", "active_allocated"}}
		case "free_requested":
			owner[e[1].value.(uint64)][3].value = "active_pending_free"
		case "free_completed":
			delete(owner, e[1].value.(uint64))
		}
	}
	var list array
	for slot := range 2 * window {
		address := l.addr(slot)
		segment := object{{"device", 0}, {"address", address}, {"total_size", 4 << 20}, {"stream", 0}, {"frames", l.list(slot)}}
		blocks := array{object{{"address", address}, {"size", 4 << 20}, {"requested_size", 512}, {"state", "inactive"}}}
		if block, ok := owner[address]; ok {
			used := block[0].value.(int)
			blocks = array{block, object{{"address", address + uint64(used)}, {"size", 4<<20 - used}, {"requested_size", 0}, {"state", "inactive"}}}
		}
		list = append(list, append(segment, member{"blocks", blocks}))
	}
	return list
}

func (l *loop) write(e encoder) {
	segments := l.segments()
	e.dict(2, func() {
		e.key("segments")
		encode(e, segments)
		e.key("device_traces")
		e.list(1, func(int) { e.list(l.n, func(i int) { encode(e, l.event(i)) }) })
	})
}
