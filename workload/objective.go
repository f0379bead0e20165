package workload

import "fmt"

// Objective is the loss of a trainer of TRL, whose release is that of the engine trl.
// Of preferences a micro-batch counts the sequences of a pass: the chosen, and as many
// rejected.
type Objective struct {
	Method    ObjectiveMethod
	Reference ObjectiveReference
}

// ObjectiveMethod is whose loss it is.
type ObjectiveMethod string

// DPO is DPOTrainer's, over pairs of what was chosen and what was rejected.
const DPO ObjectiveMethod = "dpo"

// ObjectiveReference is whence the log-probabilities come that preferences are measured
// against.
type ObjectiveReference string

// The references. Where nothing is said it is the adapter switched off, and another
// model where there is no adapter.
const (
	ReferenceModel       ObjectiveReference = "model"
	ReferenceAdapterOff  ObjectiveReference = "adapter"
	ReferencePrecomputed ObjectiveReference = "precomputed"
)

type objectiveYAML struct {
	Method    string `yaml:"method"`
	Reference string `yaml:"reference"`
}

func (c *checker) objective(d *objectiveYAML, t *Train) *Objective {
	if d == nil {
		return nil
	}
	o := &Objective{
		Method:    choose(c, "training.objective.method", ObjectiveMethod(d.Method), []ObjectiveMethod{DPO}),
		Reference: choose(c, "training.objective.reference", ObjectiveReference(d.Reference), []ObjectiveReference{ReferenceModel, ReferenceAdapterOff, ReferencePrecomputed}),
	}
	if o.Method == "" {
		c.wrong("training.objective", "does not say its method: dpo")
	}
	if o.Reference == ReferenceAdapterOff && t.Tuning == nil {
		c.wrong("training.objective.reference", "is adapter, and none is trained")
	}
	return o
}

// CheckPairs refuses a micro-batch that is no pairs.
func (w *Workload) CheckPairs() error {
	if w.Training == nil || w.Training.Objective == nil {
		return nil
	}
	if n, said := w.Dimension(MicroBatch); said && n%2 != 0 {
		return fmt.Errorf("a micro-batch of %d sequences is no pairs of what was chosen and what was rejected: it counts both", n)
	}
	return nil
}
