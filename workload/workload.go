package workload

import (
	"floodmark/account"
	"floodmark/dtype"
)

// Operation is what the workload does with the model.
type Operation string

const (
	Load       Operation = "load" // bring the weights to the device and stop
	Generation Operation = "generation"
	Training   Operation = "training"
	FineTuning Operation = "fine-tuning"
	Evaluation Operation = "evaluation"
	Export     Operation = "export"
)

// Dimension names a size that inputs have.
type Dimension string

const (
	Context    Dimension = "context"   // positions of one sequence before generation
	Generated  Dimension = "generated" // positions that generation adds to one sequence
	Sequences  Dimension = "sequences" // sequences present together
	Batch      Dimension = "batch"     // samples of one optimizer step on one data-parallel rank
	MicroBatch Dimension = "micro_batch"
	Images     Dimension = "images"
	Resolution Dimension = "resolution"
)

// Input is one class of inputs, such as typical, long or limit.
type Input struct {
	Name       string
	Dimensions map[Dimension]int64 // only what was declared
}

// Resident is something that stays in memory beside the operation: a reference
// model, an evaluation after training, another engine.
type Resident struct {
	Name string
	What string
}

// Mesh is how many ranks divide the work, by kind of parallelism; 1 is none.
type Mesh struct {
	TensorParallel, PipelineParallel, DataParallel, ExpertParallel, ContextParallel int
}

// Single is one rank that holds everything.
func Single() Mesh { return Mesh{1, 1, 1, 1, 1} }

// Ranks is the number of ranks of the mesh. Expert parallelism reuses the
// ranks of the others.
func (m Mesh) Ranks() int {
	return max(1, m.TensorParallel) * max(1, m.PipelineParallel) * max(1, m.DataParallel) * max(1, m.ContextParallel)
}

// Precision is the declared format of each kind of tensor; Unknown where
// nobody declared it. "Mixed precision" alone declares none of them.
type Precision struct {
	Parameters, Gradients, MasterCopy, FirstMoment, SecondMoment, Compute, Cache dtype.Format
}

// TrainingOptions are what training adds to a workload.
type TrainingOptions struct {
	Optimizer     string
	Checkpointing string
	Accumulation  int
}

// Serving are what a serving engine is told.
type Serving struct {
	MaxRequests int
	MaxLength   int64
	Policy      string // what happens when the cache is full: "refuse", "preempt"
}

// Adapter is one adapter beside the model.
type Adapter struct {
	Kind    string // "lora", "dora", "qlora"
	Rank    int
	Targets []string
}

// Engine names the software that runs the workload. A number that depends on
// it depends on its version.
type Engine struct {
	Name, Version string
}

// Workload is the work whose memory is asked for.
type Workload struct {
	Operation Operation
	Inputs    []Input
	Resident  []Resident
	Mesh      Mesh
	Precision Precision
	Training  *TrainingOptions
	Serving   *Serving
	Adapters  []Adapter
	Engine    Engine
	Phases    []account.PhaseID // phases that the user declares; empty for those of the operation
}

// Dimension is the largest declared value of a dimension over the inputs, and
// whether any input declares it.
func (w *Workload) Dimension(d Dimension) (int64, bool) {
	var largest int64
	found := false
	for _, in := range w.Inputs {
		if v, ok := in.Dimensions[d]; ok {
			largest, found = max(largest, v), true
		}
	}
	return largest, found
}

// Missing lists the dimensions that the operation needs and no input declares.
func (w *Workload) Missing() []Dimension {
	var need []Dimension
	switch w.Operation {
	case Generation:
		need = []Dimension{Context, Generated, Sequences}
	case Training, FineTuning:
		need = []Dimension{Context, MicroBatch}
	case Evaluation:
		need = []Dimension{Context, Batch}
	}
	var missing []Dimension
	for _, d := range need {
		if _, ok := w.Dimension(d); !ok {
			missing = append(missing, d)
		}
	}
	return missing
}
