package workload

import (
	"testing"

	"floodmark/internal/checklist"
)

// What is admitted is an input of its own: as many requests as are let in, each
// of the longest. The answer is of what the inputs generate.
func TestAdmitted(t *testing.T) {
	checklist.Covers(t, 200)
	input := func(context, generated, sequences int64) Input {
		return Input{Name: "typical", Dimensions: map[Dimension]int64{Context: context, Generated: generated, Sequences: sequences}}
	}
	for _, c := range []struct {
		name                          string
		inputs                        []Input
		serving                       *Serving
		context, generated, sequences int64
	}{
		{"nothing is admitted beyond the inputs", []Input{input(2048, 256, 8)}, nil, 2048, 256, 8},
		{"more requests", []Input{input(2048, 256, 8)}, &Serving{MaxRequests: 32}, 2048, 256, 32},
		{"longer requests", []Input{input(2048, 256, 8)}, &Serving{MaxLength: 9216}, 8960, 256, 8},
		{"both", []Input{input(2048, 256, 8)}, &Serving{MaxRequests: 32, MaxLength: 9216}, 8960, 256, 32},
		{"the inputs are larger", []Input{input(16384, 256, 64)}, &Serving{MaxRequests: 32, MaxLength: 9216}, 16384, 256, 64},
		{"no inputs: all is prompt", nil, &Serving{MaxRequests: 32, MaxLength: 9216}, 9216, 0, 32},
		{"an answer as long as a request", []Input{input(10, 9216, 1)}, &Serving{MaxLength: 9216}, 10, 9216, 1},
	} {
		w := Workload{Operation: Generation, Inputs: c.inputs, Serving: c.serving}
		w = w.Admitted().Admitted() // twice is once
		for d, want := range map[Dimension]int64{Context: c.context, Generated: c.generated, Sequences: c.sequences} {
			if got, _ := w.Dimension(d); got != want {
				t.Errorf("%s: %s is %d, want %d", c.name, d, got, want)
			}
		}
		if len(w.Inputs) > len(c.inputs)+1 {
			t.Errorf("%s: %d inputs", c.name, len(w.Inputs))
		}
	}
}

// A dimension that is asked for is no longer bound by what is admitted.
func TestUnadmitted(t *testing.T) {
	w := Workload{Operation: Generation, Serving: &Serving{MaxRequests: 32, MaxLength: 9216}}
	w = w.Admitted()
	for d, want := range map[Dimension]int64{Sequences: 0, Context: 32} {
		other := w.Unadmitted(d).Admitted()
		if n, _ := other.Dimension(Sequences); n != want {
			t.Errorf("asked for %s, %d sequences are admitted, want %d", d, n, want)
		}
	}
	if w.Serving.MaxRequests != 32 {
		t.Error("the workload itself was changed")
	}
}
