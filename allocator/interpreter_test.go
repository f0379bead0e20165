package allocator

import (
	"errors"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"floodmark/bytesize"

	"github.com/cockroachdb/datadriven"
)

// interpreter runs the statements of a script on one allocator. Every
// statement prints what the driver was asked for, then its own result.
//
// Addresses are printed as a segment's name and an offset; segments are named
// s0, s1, … in the order in which the driver made them.
type interpreter struct {
	*Allocator
	card    *Card
	rules   Rules
	names   map[string]Handle
	pools   map[string]PoolID
	bases   []uint64
	lengths []int64
	out     strings.Builder
}

func newInterpreter() *interpreter {
	in := &interpreter{rules: LatestRules(), names: map[string]Handle{}, pools: map[string]PoolID{}}
	in.card = NewCard(0, 80<<30)
	in.Allocator = New(&loggedDriver{Card: in.card, in: in}, DefaultSettings(), in.rules)
	return in
}

// loggedDriver prints what the driver is asked for, under the names of traces.
type loggedDriver struct {
	*Card
	in *interpreter
}

func (d *loggedDriver) Alloc(size int64, stream uint64) (uint64, bool) {
	addr, ok := d.Card.Alloc(size, stream)
	if !ok {
		d.in.printf("refused %s", show(size))
		return 0, false
	}
	d.in.name(addr, size)
	d.in.printf("segment_alloc %s %s", d.in.where(addr), show(size))
	return addr, true
}

func (d *loggedDriver) Free(addr uint64, size int64) {
	d.Card.Free(addr, size)
	d.in.printf("segment_free %s %s", d.in.where(addr), show(size))
}

func (d *loggedDriver) Reserve(size int64, stream uint64) (uint64, bool) {
	addr, ok := d.Card.Reserve(size, stream)
	d.in.name(addr, size)
	d.in.printf("reserve %s %s", d.in.where(addr), show(size))
	return addr, ok
}

func (d *loggedDriver) Map(addr uint64, size int64, stream uint64) bool {
	if !d.Card.Map(addr, size, stream) {
		d.in.printf("refused %s", show(size))
		return false
	}
	d.in.printf("segment_map %s %s", d.in.where(addr), show(size))
	return true
}

func (d *loggedDriver) Unmap(addr uint64, size int64) {
	d.Card.Unmap(addr, size)
	d.in.printf("segment_unmap %s %s", d.in.where(addr), show(size))
}

func (d *loggedDriver) Release(addr uint64, size int64) {
	d.in.printf("release %s", d.in.where(addr))
}

func (in *interpreter) name(addr uint64, size int64) {
	in.bases = append(in.bases, addr)
	in.lengths = append(in.lengths, size)
}

func (in *interpreter) where(addr uint64) string {
	for i := range in.bases {
		if addr >= in.bases[i] && addr < in.bases[i]+uint64(in.lengths[i]) {
			return fmt.Sprintf("s%d+%s", i, show(int64(addr-in.bases[i])))
		}
	}
	return fmt.Sprintf("%#x", addr)
}

func (in *interpreter) printf(format string, args ...any) {
	fmt.Fprintf(&in.out, format+"\n", args...)
}

// show prints a size in the largest unit in which it is a whole number.
func show(n int64) string {
	if n == 0 {
		return "0"
	}
	for _, u := range []bytesize.Unit{bytesize.GiB, bytesize.MiB, bytesize.KiB} {
		if n%u.Bytes() == 0 {
			return fmt.Sprintf("%d%s", n/u.Bytes(), u)
		}
	}
	return strconv.FormatInt(n, 10)
}

// directive runs one directive of a script file.
func (in *interpreter) directive(t *testing.T, d *datadriven.TestData) string {
	in.out.Reset()

	switch d.Cmd {
	case "run": // several statements, each printing
		for line := range strings.Lines(d.Input) {
			in.statement(t, strings.Fields(line))
		}
	case "repeat": // several statements many times; prints only what is reserved then
		var times int
		d.ScanArgs(t, "times", &times)
		for range times {
			for line := range strings.Lines(d.Input) {
				in.statement(t, strings.Fields(line))
			}
		}
		in.out.Reset()
		in.printf("reserved %s", show(in.Reserved()))
	case "conf":
		in.conf(strings.TrimSpace(d.Input))
	default:
		words := []string{d.Cmd}
		for _, arg := range d.CmdArgs {
			words = append(words, arg.String())
		}
		in.statement(t, words)
	}
	if in.out.Len() == 0 {
		return "ok\n"
	}
	return in.out.String()
}

func (in *interpreter) conf(text string) {
	s, err := ParseConf(text)
	if err != nil {
		in.printf("error: %v", err)
		return
	}
	in.Configure(s)
	for _, w := range in.Settings().Warnings {
		in.printf("warning: %s", w.Text)
	}
}

// statement runs one command with its words: positional ones, then key=value.
func (in *interpreter) statement(t *testing.T, words []string) {
	options := map[string]string{}
	var plain []string
	for _, w := range words[1:] {
		if key, value, ok := strings.Cut(w, "="); ok {
			options[key] = value
		} else {
			plain = append(plain, w)
		}
	}
	switch words[0] {
	case "alloc": // alloc SIZE [stream=N] [pool=NAME] [as=NAME]
		in.alloc(t, size(t, plain[0]), options)
	case "free", "free-requested", "free-completed":
		for _, name := range plain {
			in.release(words[0], name)
		}
	case "record-stream": // record-stream NAME stream=N
		in.RecordStream(in.names[plain[0]], stream(t, options))
	case "reached": // reached stream=N: the stream has done its work
		in.StreamReached(stream(t, options))
	case "empty-cache":
		in.EmptyCache()
	case "capacity": // what the driver can give in all
		in.card.SetCapacity(size(t, plain[0]))
	case "version":
		rules, err := RulesFor(plain[0])
		if err != nil {
			t.Fatal(err)
		}
		in.Allocator.rules = rules
	case "reset-peaks":
		in.Stats().ResetPeaks()
	default:
		in.poolStatement(t, words[0], plain, options)
	}
}

func (in *interpreter) poolStatement(t *testing.T, command string, plain []string, options map[string]string) {
	switch command {
	case "pool": // pool NAME [no_split=true] [use_on_oom=true]
		in.pools[plain[0]] = in.NewPool(PoolOptions{NoSplit: options["no_split"] != "", UseOnOOM: options["use_on_oom"] != "",
			CustomAllocator: options["custom_allocator"] != ""})
	case "retain-pool":
		in.RetainPool(in.pools[plain[0]])
	case "release-pool":
		in.ReleasePool(in.pools[plain[0]])
	case "begin-capture":
		in.BeginCapture()
	case "end-capture":
		in.EndCapture()
	case "segments":
		in.segments()
	case "stats": // stats [NAME...]
		in.statistics(plain)
	case "counters":
		s := in.Stats()
		in.printf("num_alloc_retries %d, num_ooms %d, num_sync_all_streams %d, num_device_alloc %d, num_device_free %d, num_oom_rejections %d",
			s.NumAllocRetries, s.NumOOMs, s.NumSyncAllStreams, s.NumDeviceAlloc, s.NumDeviceFree, s.NumOOMRejections)
		in.printf("oversize_allocations %v, oversize_segments %v", s.OversizeAllocations, s.OversizeSegments)
	default:
		t.Fatalf("unknown statement %q", command)
	}
}

func (in *interpreter) alloc(t *testing.T, request int64, options map[string]string) {
	h, err := in.Malloc(request, stream(t, options), in.pools[options["pool"]])
	var oom *OutOfMemoryError
	switch {
	case errors.As(err, &oom):
		in.printf("oom %s, reserved %s, rejected %v", show(oom.Size), show(oom.Reserved), oom.Rejected)
		return
	case err != nil:
		in.printf("error: %v", err)
		return
	}
	b, _ := in.Lookup(h)
	in.printf("alloc %s %s", in.where(b.Addr), show(b.Size))
	in.names[options["as"]] = h
}

func (in *interpreter) release(how, name string) {
	h := in.names[name]
	done := false
	switch how {
	case "free":
		done = in.Free(h)
	case "free-requested":
		done = in.FreeRequested(h)
	case "free-completed":
		done = in.FreeCompleted(h)
	}
	if !done {
		in.printf("%s is not there to be freed", name)
	}
}

func (in *interpreter) segments() {
	list := in.Segments()
	for _, s := range list {
		kind := "large"
		if s.Small {
			kind = "small"
		}
		if s.Expandable {
			kind += " expandable"
		}
		if s.Pool != 0 {
			kind += fmt.Sprintf(" pool %d", s.Pool)
		}
		in.printf("%s %s %s stream %d", in.where(s.Addr), show(s.Size), kind, s.Stream)
		for _, b := range s.Blocks {
			in.printf("  +%s %s %s", show(int64(b.Addr-s.Addr)), show(b.Size), b.State)
		}
	}
	if len(list) == 0 {
		in.printf("none")
	}
}

func (in *interpreter) statistics(names []string) {
	for _, row := range in.Stats().ByPool() {
		for _, name := range names {
			if row.Name == name {
				a, s, l := row.Value.All, row.Value.Small, row.Value.Large
				in.printf("%s: current %s, peak %s, allocated %s, freed %s; small_pool %s, large_pool %s",
					name, show(a.Current), show(a.Peak), show(a.Allocated), show(a.Freed), show(s.Current), show(l.Current))
			}
		}
	}
}

func size(t *testing.T, text string) int64 {
	n, err := bytesize.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func stream(t *testing.T, options map[string]string) uint64 {
	if options["stream"] == "" {
		return 0
	}
	n, err := strconv.ParseUint(options["stream"], 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// TestScripts runs every script of testdata on an allocator of its own.
func TestScripts(t *testing.T) {
	scripts, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(scripts) == 0 {
		t.Fatal("no scripts:", err)
	}
	for _, path := range scripts {
		t.Run(filepath.Base(path), func(t *testing.T) {
			datadriven.RunTest(t, path, newInterpreter().directive)
		})
	}
}
