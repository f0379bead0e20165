package snapshot

import (
	"cmp"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"floodmark/internal/oracle"
	"floodmark/timeline"
)

// The allocations that were labelled by hand are drawn, not chosen. To see the
// draw of a file:
//
//	ORACLES=DIR go test ./snapshot -run TestOracleDraw -v -draw /tmp
var drawFolder = flag.String("draw", "", "where the drawn allocations are written, without labels")

// drawSeed and drawNear fix the draw: a seed, and how many entries before and
// after the peak count as near it.
const (
	drawSeed = 20261129
	drawNear = 300
)

// drawnFiles are the files of which allocations were labelled, by the name of
// their table of labels.
func drawnFiles() map[string]string {
	return map[string]string{
		"medium_128_training":  "wedsonlin__assignment2-systems/results_medium_128_training_memory_snapshot.pickle",
		"medium_1024_training": "wedsonlin__assignment2-systems/results_medium_1024_training_memory_snapshot.pickle",
		"nothanmin":            "nothanmin__assignment2-systems/memory_snapshot.pickle",
		"magma27":              "magma27__assignment2-systems/memory_snapshot.pickle",
		"silmont2000_bf16":     "silmont2000__assignment2-systems/memory_forward_bf16_128.pickle",
		"decomfl":              "zidongliu__decomfl/memory.pickle",
	}
}

// drawn is one allocation of a draw. An address and the entry of its birth (−1:
// before the first) name it.
type drawn struct {
	address uint64
	birth   int
	bytes   int64
}

func (d drawn) String() string { return fmt.Sprintf("%#x\t%d\t%d", d.address, d.birth, d.bytes) }

// lifetime is when an allocation is alive: entries birth ≤ i < death.
type lifetime struct {
	drawn
	death int
}

func lifetimesOf(r *Recording) []lifetime {
	list := make([]lifetime, len(r.Timeline.Allocs))
	for a, alloc := range r.Timeline.Allocs {
		list[a] = lifetime{drawn{r.Addresses[a], -1, alloc.Requested}, r.Trace.Len() + 1}
	}
	for k, e := range r.Timeline.Events {
		switch e.Kind {
		case timeline.Born:
			list[e.Alloc].birth = int(r.Entries[k])
		case timeline.FreeCompleted:
			list[e.Alloc].death = int(r.Entries[k])
		}
	}
	return list
}

// draw takes 15 allocations that lived before the trace and at the peak, 20 that
// were born in it and live at the peak, 15 that live near the peak only, and
// fills up from all of these to 50.
func draw(r *Recording) []drawn {
	peak := r.Peaks().Requested.Entry
	var strata [3][]drawn
	for _, l := range lifetimesOf(r) {
		switch atPeak := l.birth <= peak && peak < l.death; {
		case atPeak && l.birth < 0:
			strata[0] = append(strata[0], l.drawn)
		case atPeak:
			strata[1] = append(strata[1], l.drawn)
		case l.birth <= peak+drawNear && peak-drawNear < l.death:
			strata[2] = append(strata[2], l.drawn)
		}
	}
	random := rand.New(rand.NewPCG(drawSeed, 0))
	var taken, rest []drawn
	for i, want := range []int{15, 20, 15} {
		slices.SortFunc(strata[i], byIdentity)
		random.Shuffle(len(strata[i]), func(a, b int) { strata[i][a], strata[i][b] = strata[i][b], strata[i][a] })
		n := min(want, len(strata[i]))
		taken, rest = append(taken, strata[i][:n]...), append(rest, strata[i][n:]...)
	}
	taken = append(taken, rest[:min(50-len(taken), len(rest))]...)
	slices.SortFunc(taken, byIdentity)
	return taken
}

func byIdentity(a, b drawn) int {
	return cmp.Or(cmp.Compare(a.birth, b.birth), cmp.Compare(a.address, b.address))
}

// readLabels reads a table of labels: address, entry of the birth, bytes,
// category, reason.
func readLabels(t *testing.T, name string) (list []drawn, categories []string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", "labels", name+".tsv"))
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range strings.Split(strings.TrimSpace(string(text)), "\n")[1:] {
		fields := strings.Split(line, "\t")
		var d drawn
		if _, err := fmt.Sscanf(strings.Join(fields[:3], " "), "%v %d %d", &d.address, &d.birth, &d.bytes); err != nil || len(fields) != 5 {
			t.Fatalf("%s: %q: %v", name, line, err)
		}
		list, categories = append(list, d), append(categories, fields[3])
	}
	return list, categories
}

// TestOracleDraw finds that what was labelled is what the seed draws.
func TestOracleDraw(t *testing.T) {
	dir := filepath.Join(oracle.Dir(t), "snapshots")
	for name, file := range drawnFiles() {
		t.Run(name, func(t *testing.T) {
			r, _ := readRecording(t, filepath.Join(dir, file))
			taken := draw(r)
			if *drawFolder != "" {
				var b strings.Builder
				for _, d := range taken {
					fmt.Fprintln(&b, d)
				}
				if err := os.WriteFile(filepath.Join(*drawFolder, name+".tsv"), []byte(b.String()), 0o600); err != nil {
					t.Fatal(err)
				}
				return
			}
			if labelled, _ := readLabels(t, name); !slices.Equal(labelled, taken) {
				t.Errorf("the labels are of other allocations than the draw")
			}
		})
	}
}

// readRecording reads a file, and makes the recording of its first device.
func readRecording(t *testing.T, path string) (*Recording, *Snapshot) {
	t.Helper()
	s := readFile(t, path)
	return s.Recordings()[0], s
}
