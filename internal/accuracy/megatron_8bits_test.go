package accuracy

import (
	"os"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"

	"floodmark/account"
)

// Runs in 8 bits of Megatron-LM's functional tests, whose readings are not among the
// published measurements that count: the level after a step within 0.5 %, the peak
// within 2 %.
func TestMegatronIn8Bits(t *testing.T) {
	for _, r := range runsIn8Bits(t) {
		for _, row := range r.rows() {
			if row.Status() != Inside {
				t.Errorf("%s, %s: %+v", row.Name, row.Quantity, row)
			}
			if row.Low != nil {
				t.Logf("%s, %s: %+.2f %%", row.Name, row.Quantity, 100*(float64(*row.Low)/float64(row.Want)-1))
			}
		}
	}
}

// What Hopper has after a step and Blackwell has not is the transposed weights, to within
// the allocator's rounding.
func TestMegatronTransposesOnHopper(t *testing.T) {
	runs := runsIn8Bits(t)
	hopper, blackwell := runs[0].rows()[0], runs[1].rows()[0]
	published, here := hopper.Want-blackwell.Want, *hopper.Low-*blackwell.Low
	if d := here - published; d < -4096 || d > 4096 {
		t.Errorf("Hopper has %d bytes more after a step, published %d", here, published)
	}
}

// Sabotage: the peak of a step that ends with parameters in 8 bits is out of reach
// without the copies that those are written from.
func TestMegatronMissesCopies(t *testing.T) {
	runs, err := megatronRuns()
	if err != nil {
		t.Fatal(err)
	}
	r := runs[len(runs)-1]
	ways, err := r.predictions(nil)
	if err != nil {
		t.Fatal(err)
	}
	with, without := Row{Want: r.Figures[0].Bytes}, Row{Want: r.Figures[0].Bytes}
	r.Figures[0].judge(&with, ways, nil)
	r.Figures[0].judge(&without, ways, []account.TermID{account.TermTemporaries})
	if with.Status() != Inside || without.Status() == Inside {
		t.Errorf("%s: %+v, and without the copies %+v", r.ID, with, without)
	}
}

// Sabotage: without graphs the run that captures them holds a third less after a step.
func TestMegatronMissesGraphs(t *testing.T) {
	runs := runsIn8Bits(t)
	r := runs[len(runs)-1]
	with := r.rows()
	r.Workload = strings.Replace(r.Workload, "cuda_graphs: [attn]", "cuda_graphs: []", 1)
	without := r.rows()
	for i, want := range []float64{0.005, 0.005} {
		if d := float64(with[i].Want-*with[i].Low) / float64(with[i].Want); d < 0 || d > want {
			t.Errorf("%s: %.2f %% low with graphs", with[i].Quantity, 100*d)
		}
		if d := float64(with[i].Want-*without[i].Low) / float64(with[i].Want); d > -0.05 && d < 0.05 {
			t.Errorf("%s: as close without graphs, %.2f %% low", with[i].Quantity, 100*d)
		}
	}
}

// Sabotage: without one of its terms a peak that was close is not.
func TestMegatronMisses8Bits(t *testing.T) {
	for _, id := range []account.TermID{account.TermWeights, account.TermActivations, account.TermGradients, account.TermWorkspace} {
		lost := 0
		for _, r := range runsIn8Bits(t)[:4] { // those of small models
			if rows := r.rows(id); rows[len(rows)-1].Status() != Inside {
				lost++
			}
		}
		if lost == 0 {
			t.Errorf("every peak is as close without %s", id)
		}
	}
}

func runsIn8Bits(t *testing.T) []megatronRun {
	t.Helper()
	return runsFrom(t, "testdata/megatron_8bits.yaml")
}

// runsFrom are runs that are not among those that count.
func runsFrom(t *testing.T, file string) (runs []megatronRun) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := yaml.UnmarshalWithOptions(text, &runs, yaml.Strict()); err != nil {
		t.Fatal(err)
	}
	return runs
}
