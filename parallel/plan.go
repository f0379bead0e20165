package parallel

import (
	"floodmark/account"
	"floodmark/bytesize"
	"floodmark/model"
	"floodmark/workload"
)

// Coord is a rank's place in the mesh. Of a class it is the place of the first
// rank.
type Coord struct {
	Tensor, Pipeline, Data, Expert, Context int
}

// LayerRef is a layer of the model that a rank runs.
type LayerRef struct {
	Stack, Layer int32
}

// LocalTensor is what a rank holds of one tensor.
type LocalTensor struct {
	Tensor int     // index into Model.Tensors
	Shape  []int64 // its part, in elements
	// Packed is its part of the stored words of a packed tensor; nil elsewhere.
	Packed []int64
	// Padding is how many elements all ranks together hold of this tensor that
	// the model does not have.
	Padding int64
	// AtLeast is the smallest part that this rank can hold, as one of so many;
	// 0 where Shape is exact. Quantisation metadata does not say along which
	// dimension it goes, and engines differ in what they divide of a projector.
	AtLeast int64
}

// Bytes is what the rank holds of t, which is the tensor that the part is of.
func (l LocalTensor) Bytes(t model.Tensor) account.Figure {
	p := account.Provenance{Origin: account.Calculated, Scope: account.Requested, Counter: "weights.stored"}
	shape := l.Shape
	if l.Packed != nil {
		shape = l.Packed
	}
	bytes, fits := t.Stored.Size(shape)
	switch {
	case !fits:
		return account.Unknown(model.WhyNoBytes(t), p)
	case l.AtLeast > 1:
		return account.Between(bytes/l.AtLeast, bytes, p)
	}
	return account.Exact(bytes, p)
}

// RankPlan is what one class of equal ranks holds: the ranks of one pipeline
// stage.
type RankPlan struct {
	Ranks   []int // the first stands for all
	Coord   Coord
	Mesh    workload.Mesh
	Layers  []LayerRef
	Chunk   []int         // by layer: the piece of the stage that runs it
	KVHeads []int         // by layer: heads whose keys and values the rank caches; 0 where it caches none by head
	Tensors []LocalTensor // tensors that share storage appear once
	First   bool          // the rank's stage embeds the tokens
	Last    bool          // the rank's stage makes the logits
	Vocab   int           // rows of the vocabulary that the rank holds, padding included

	share shares
}

// Layer is a layer as one rank of the plan runs it: its share of the heads, of
// the widths and of the experts.
func (p RankPlan) Layer(m *model.Model, ref LayerRef) model.Layer {
	return localLayer(m.Stacks[ref.Stack].Kind, m.Stacks[ref.Stack].Layers[ref.Layer], p.share.atLeastOne())
}

// NotSupportedError is a layout that cannot run, or that nobody has modelled.
type NotSupportedError struct {
	Rule       string // a sentence
	Unmodelled bool   // it may run, and nobody has modelled it
}

// Error is the rule.
func (e *NotSupportedError) Error() string { return e.Rule }

// Plan divides a model over a mesh by the rules of [Plain].
func Plan(m *model.Model, mesh workload.Mesh) ([]RankPlan, error) { return Plain().Plan(m, mesh) }

// Plan divides a model over a mesh: one plan for each pipeline stage, whose
// ranks are equal. It fails with a [NotSupportedError] when a rule is broken.
func (r Rules) Plan(m *model.Model, mesh workload.Mesh) ([]RankPlan, error) {
	mesh = atLeastOne(mesh)
	if err := r.check(m, mesh); err != nil {
		return nil, err
	}
	d := &divider{m: m, mesh: mesh, rules: r, main: mainStack(m)}
	if err := d.split(); err != nil {
		return nil, err
	}
	plans := make([]RankPlan, mesh.PipelineParallel)
	for stage := range plans {
		plans[stage] = d.plan(stage)
	}
	return plans, nil
}

func atLeastOne(m workload.Mesh) workload.Mesh {
	return workload.Mesh{
		TensorParallel: max(1, m.TensorParallel), PipelineParallel: max(1, m.PipelineParallel), DataParallel: max(1, m.DataParallel),
		ExpertParallel: max(1, m.ExpertParallel), ContextParallel: max(1, m.ContextParallel),
	}
}

// mostRanks bounds the mesh: the largest published runs have some tens of
// thousands.
const mostRanks = 1 << 20

// count is the number of ranks of the mesh; false when it is beyond the bound.
func count(m workload.Mesh) (int64, bool) {
	n, fits := bytesize.Mul(int64(m.TensorParallel), int64(m.PipelineParallel), int64(m.DataParallel), int64(m.ContextParallel))
	return n, fits && n <= mostRanks
}

// mainStack is the stack that a pipeline divides: the decoder, else the first
// encoder, else the first of all; −1 for a model without stacks.
func mainStack(m *model.Model) int32 {
	for _, kind := range []model.StackKind{model.Decoder, model.Encoder} {
		for i, s := range m.Stacks {
			if s.Kind == kind {
				return int32(i)
			}
		}
	}
	return int32(min(0, len(m.Stacks)-1))
}
