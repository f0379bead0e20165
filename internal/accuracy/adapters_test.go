package accuracy

import (
	"math"
	"slices"
	"testing"

	"floodmark/account"
)

// What PEFT's adapters train is what PEFT counts, to the element, wherever they are
// counted at all, and the bytes after a step are within 1 % of the published mean.
func TestAdapterRows(t *testing.T) {
	rows, err := Adapters()
	if err != nil {
		t.Fatal(err)
	}
	var errors []float64
	for _, r := range rows {
		if e, known := r.errorOf(); known {
			errors = append(errors, math.Abs(e))
			t.Logf("%-45s %+6.2f %%", r.Name, 100*e)
		}
		if r.Status() == Wrong {
			t.Errorf("%s, %s: %s, want %d (%v %v)", r.Name, r.Quantity, r.Why, r.Want, r.Got, r.Low)
		}
		if r.Status() == Miss {
			t.Logf("%-45s %s: %s", r.Name, r.Quantity, r.Why)
		}
	}
	slices.Sort(errors)
	t.Logf("%d of %d with a figure, median %.2f %%, largest %.2f %%", len(errors), len(rows)/2, 100*errors[len(errors)/2], 100*errors[len(errors)-1])
}

// Sabotage: without the states of the optimizer rows are wrong.
func TestAdaptersMissATerm(t *testing.T) {
	rows, err := adaptersWithout(account.TermOptimizerState)
	if err != nil {
		t.Fatal(err)
	}
	if !slices.ContainsFunc(rows, func(r Row) bool { return r.Status() == Wrong }) {
		t.Error("every row is as close without the optimizer's states")
	}
}
