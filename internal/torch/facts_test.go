package torch_test

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"floodmark/account"
	"floodmark/internal/oracle"
	"floodmark/internal/source"
	"floodmark/snapshot"
	"floodmark/timeline"
)

var update = flag.Bool("update", false, "write testdata/traces again from the published snapshots (ORACLES)")

// trace is what a snapshot recorded, reduced to what an operator machine must
// reproduce: the blocks that lived before, and births and deaths in order, each
// birth with the operator and the node of backward that asked.
type trace struct {
	before []int64 // bytes
	events []recordedEvent
}

// recordedEvent is a birth (of number born, with its place) or the death of a
// birth, or of a block that lived before (of < 0: −1 is the first of these).
type recordedEvent struct {
	bytes    int64
	dies     bool
	of       int
	op, node string
	phase    account.PhaseID // begins here; empty where none does
}

// readTrace reads testdata/traces/NAME.txt.gz.
func readTrace(t *testing.T, name string) trace {
	t.Helper()
	file, err := os.Open(filepath.Join("testdata", "traces", name+".txt.gz"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	unzipped, err := gzip.NewReader(file)
	if err != nil {
		t.Fatal(err)
	}
	var tr trace
	var births []int64
	var phase account.PhaseID
	for lines := bufio.NewScanner(unzipped); lines.Scan(); {
		fields := strings.Split(lines.Text(), "\t")
		n, err := strconv.ParseInt(fields[len(fields)-1], 10, 64)
		switch fields[0] {
		case "#":
			continue
		case "phase":
			phase = account.PhaseID(fields[1])
			continue
		case "before":
			tr.before = append(tr.before, n)
		case "+":
			tr.events = append(tr.events, recordedEvent{bytes: n, of: len(births), op: fields[1], node: fields[2], phase: phase})
			births = append(births, n)
			phase = ""
		case "-":
			e := recordedEvent{dies: true, of: int(n)}
			if n >= 0 {
				e.bytes = births[n]
			} else {
				e.bytes = tr.before[-n-1]
			}
			tr.events = append(tr.events, e)
		}
		if err != nil {
			t.Fatalf("%s: %q: %v", name, lines.Text(), err)
		}
	}
	return tr
}

// TestOracleFacts holds the committed facts against the published snapshots, and
// with -update writes them.
func TestOracleFacts(t *testing.T) {
	folder := filepath.Join(oracle.Dir(t), "snapshots")
	for _, f := range recordedFiles() {
		src, err := source.Open(filepath.Join(folder, f.path))
		if err != nil {
			t.Fatal(err)
		}
		s, err := snapshot.Read(src)
		src.Close()
		if err != nil {
			t.Fatal(err)
		}
		want := reduce(&s.Recordings()[0].Timeline, f.origin)
		path := filepath.Join("testdata", "traces", f.name+".txt.gz")
		if *update {
			if err := os.WriteFile(path, zipped(t, want), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if got := unzipped(t, path); got != want {
			t.Errorf("%s is not what the snapshot gives", path)
		}
	}
}

func zipped(t *testing.T, text string) []byte {
	t.Helper()
	var b bytes.Buffer
	w, err := gzip.NewWriterLevel(&b, gzip.BestCompression)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write([]byte(text)); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func unzipped(t *testing.T, path string) string {
	t.Helper()
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	r, err := gzip.NewReader(file)
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	if _, err := b.ReadFrom(r); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// reduce spells a recorded timeline as the facts do.
func reduce(tl *timeline.Timeline, origin string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "#\t%s\n", origin)
	number := map[uint32]int{}
	for i, a := range tl.Before {
		number[a] = -1 - i
		fmt.Fprintf(&b, "before\t%d\n", tl.Allocs[a].Requested)
	}
	births := 0
	var phase account.PhaseID
	for _, e := range tl.Events {
		switch e.Kind {
		case timeline.Born:
			op, node, at := place(tl, tl.Allocs[e.Alloc].Stack)
			if at != "" && at != phase {
				phase = at
				fmt.Fprintf(&b, "phase\t%s\n", phase)
			}
			number[e.Alloc] = births
			births++
			fmt.Fprintf(&b, "+\t%s\t%s\t%d\n", op, node, tl.Allocs[e.Alloc].Requested)
		case timeline.FreeCompleted:
			fmt.Fprintf(&b, "-\t%d\n", number[e.Alloc])
		}
	}
	return b.String()
}

// place is the operator and node in whose frames an allocation lies, and the
// phase that they tell.
func place(tl *timeline.Timeline, stack uint32) (op, node string, phase account.PhaseID) {
	var ops []string
	for _, frame := range tl.Stacks.Stack(stack) {
		function := tl.Stacks.Function(frame)
		if name, rest, is := strings.Cut(strings.TrimPrefix(function, "at::_ops::"), "::"); is && strings.HasPrefix(function, "at::_ops::") && (strings.HasPrefix(rest, "call") || strings.HasPrefix(rest, "redispatch")) {
			if len(ops) == 0 || ops[len(ops)-1] != name {
				ops = append(ops, name)
			}
		}
		if before, _, is := strings.Cut(function, "::apply("); is && node == "" && strings.Contains(function, "autograd::") {
			node = before[strings.LastIndex(before, "::")+2:]
		}
		if phase == "" {
			phase = phaseOf(function)
		}
	}
	if strings.Contains(tl.Stacks.File(firstFrame(tl, stack)), "optimizer") {
		phase = account.PhaseOptimizerStep
	}
	return strings.Join(ops, "<"), node, phase
}

func firstFrame(tl *timeline.Timeline, stack uint32) uint32 {
	frames := tl.Stacks.Stack(stack)
	for _, f := range frames {
		if strings.HasSuffix(tl.Stacks.File(f), ".py") {
			return f
		}
	}
	if len(frames) == 0 {
		return 0
	}
	return frames[0]
}

// phaseOf is the phase that a function of the recorded programs belongs to.
func phaseOf(function string) account.PhaseID {
	switch {
	case function == "cross_entropy":
		return account.PhaseLoss
	case function == "_make_grads", strings.Contains(function, "torch::autograd::Engine"):
		return account.PhaseBackward
	case function == "_call_impl":
		return account.PhaseForward
	}
	return ""
}

// recordedFile is a published snapshot whose facts are committed.
type recordedFile struct{ name, path, origin string }

func recordedFiles() []recordedFile {
	var list []recordedFile
	for _, c := range mediumTraces() {
		list = append(list, recordedFile{c.name, "wedsonlin__assignment2-systems/results_medium_" + c.name + "_memory_snapshot.pickle",
			"github.com/Wedsonlin/assignment2-systems at 87b086417ea831f54f7535eb3680f90da0952722, results/medium_" + c.name + "_memory_snapshot.pickle; MIT by its text"})
	}
	return append(list,
		recordedFile{"magma27", "magma27__assignment2-systems/memory_snapshot.pickle",
			"github.com/MAGMA27/assignment2-systems at 15883f2b1d6bc52439d8935e280bce430151f361, memory_snapshot.pickle; MIT by its text"},
		recordedFile{"silmont2000", "silmont2000__assignment2-systems/mem_snapshot.pickle",
			"github.com/silmont2000/assignment2-systems at 75d09aad44d65bcf350114d4beaf1d3a7cde42db, mem_snapshot.pickle; MIT by its text"},
		recordedFile{"nothanmin_training", "nothanmin__assignment2-systems/memory_snapshot.pickle",
			"github.com/notHanmin/assignment2-systems at 33be88e6487892dd486fcbc60d84fa5fdc2d3a5f, memory_snapshot.pickle; MIT by its text"},
		recordedFile{"nothanmin_forward", "nothanmin__assignment2-systems/memory_snapshot_forward_without_mixed.pickle",
			"github.com/notHanmin/assignment2-systems at bbd29721256d92c17fed399bf8458b50ca221046, memory_snapshot_forward_without_mixed.pickle; MIT by its text"},
		recordedFile{"nothanmin_forward_mixed", "nothanmin__assignment2-systems/memory_snapshot_forward.pickle",
			"github.com/notHanmin/assignment2-systems at bbd29721256d92c17fed399bf8458b50ca221046, memory_snapshot_forward.pickle; MIT by its text"},
	)
}
