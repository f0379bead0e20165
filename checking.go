package floodmark

import (
	"cmp"
	"fmt"

	"floodmark/imagetokens"
	"floodmark/model"
	"floodmark/workload"
)

// hinted is a contradiction with what would end it.
type hinted struct {
	error
	hint string
}

// Hint is what to do about it.
func (a hinted) Hint() string { return a.hint }

// contradicts is a [*SettingsError] with a hint.
func contradicts(hint, format string, args ...any) error {
	return &SettingsError{hinted{fmt.Errorf(format, args...), hint}}
}

// busy refuses inputs of which there are none: nothing is computed for them, and what
// fits without them says nothing of the work.
func busy(w workload.Workload) error {
	if w.Operation == workload.Load {
		return nil
	}
	for _, in := range w.Inputs {
		for _, d := range []workload.Dimension{workload.Sequences, workload.Batch, workload.MicroBatch} {
			if n, said := in.Dimensions[d]; said && n == 0 {
				return contradicts("give 1 or more; floodmark estimate MODEL --operation load asks for the weights alone", "the input %s has 0 in %s, so that there is no work", in.Name, d)
			}
		}
	}
	return nil
}

// deepest is how many layers a model may have whose training is predicted, in all its
// stacks: each allocation of a step is run, and 1,024 layers make half a million births
// and deaths.
const deepest = 1024

// shallow refuses a training of more layers.
func shallow(m *model.Model, w workload.Workload) error {
	layers := 0
	for _, s := range m.Stacks {
		layers += len(s.Layers)
	}
	if layers <= deepest || !trains(w.Operation) {
		return nil
	}
	return contradicts("estimate it with two smaller numbers of layers: what a layer takes is the difference", "the model has %d layers, and a training is predicted of up to %d", layers, deepest)
}

// sighted refuses images of a model that has no tower for them. One that is not wholly
// understood may have one.
func sighted(m *model.Model, w workload.Workload) error {
	images, counted := w.Dimension(workload.Images)
	_, sized := w.Dimension(workload.Resolution)
	if imagetokens.Sees(m) || len(m.Unknown) > 0 || images == 0 && (counted || !sized) {
		return nil
	}
	said := workload.Images
	if images == 0 {
		said = workload.Resolution
	}
	return contradicts("leave images and resolution out, or name the model that has the tower", "the workload gives %s, and %s reads text alone: it has no tower for images", said, cmp.Or(m.Name, "the model"))
}
