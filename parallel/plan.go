package parallel

import (
	"fmt"

	"floodmark/model"
	"floodmark/workload"
)

// Coord is a rank's place in the mesh.
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
}

// RankPlan is what one class of equal ranks holds.
type RankPlan struct {
	Ranks   []int // the first stands for all
	Coord   Coord
	Layers  []LayerRef
	Tensors []LocalTensor // tensors that share storage appear once
}

// NotSupportedError is a layout that cannot run, or that nobody has modelled.
type NotSupportedError struct {
	Rule string // a sentence
}

// Error is the rule.
func (e *NotSupportedError) Error() string { return e.Rule }

// Plan divides a model over a mesh. A mesh of one rank holds every layer, and
// every tensor once: tied tensors share storage. Any other mesh is not divided
// yet and is refused, because a rank's share that is guessed is worse than
// none.
func Plan(m *model.Model, mesh workload.Mesh) ([]RankPlan, error) {
	if mesh.Ranks() != 1 {
		return nil, &NotSupportedError{Rule: fmt.Sprintf(
			"a layout of %d ranks is not supported by this version: only one rank that holds everything", mesh.Ranks())}
	}
	plan := RankPlan{Ranks: []int{0}}
	for s := range m.Stacks {
		for l := range m.Stacks[s].Layers {
			plan.Layers = append(plan.Layers, LayerRef{int32(s), int32(l)})
		}
	}
	for i, t := range m.Tensors {
		if t.TiedTo == model.NotTied {
			plan.Tensors = append(plan.Tensors, LocalTensor{Tensor: i, Shape: t.Shape})
		}
	}
	return []RankPlan{plan}, nil
}
