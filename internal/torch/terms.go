package torch

import (
	"slices"

	"floodmark/account"
	"floodmark/dtype"
)

// term is what bytes turn out to be for.
type term uint8

const (
	termTemporaries term = iota
	termActivations
	termLogits
	termWeights
	termBuffers
	termScales
	termAdapters
	termMasterCopy
	termGradients
	termOptimizerState
	termInput
	termKVCache
	termWorkspace
	termGathered
	termBuckets
	termKept
	termCount
)

func (t term) words() (account.TermID, account.Category) {
	switch t {
	case termActivations:
		return account.TermActivations, account.CategoryActivation
	case termLogits:
		return account.TermLogits, account.CategoryLogits
	case termWeights:
		return account.TermWeights, account.CategoryParameter
	case termBuffers:
		return account.TermBuffers, account.CategoryBuffer
	case termScales:
		return account.TermQuantisationMetadata, account.CategoryQuantisationMetadata
	case termAdapters:
		return account.TermAdapters, account.CategoryParameter
	case termMasterCopy:
		return account.TermMasterCopy, account.CategoryMasterCopy
	case termGradients:
		return account.TermGradients, account.CategoryGradient
	case termOptimizerState:
		return account.TermOptimizerState, account.CategoryOptimizerState
	case termInput:
		return account.TermInput, account.CategoryInput
	case termKVCache:
		return account.TermKVCache, account.CategoryKVCache
	case termGathered:
		return account.TermGatheredParameters, account.CategoryCommunication
	case termBuckets:
		return account.TermBuckets, account.CategoryCommunication
	case termWorkspace:
		return account.TermWorkspace, account.CategoryWorkspace
	case termKept:
		return account.TermKeptPredictions, account.CategoryLogits
	}
	return account.TermTemporaries, account.CategoryTemporary
}

// made is a tensor that its maker holds.
func (m *Machine) made(f dtype.Format, t term, shape []int64) Tensor {
	i := m.empty(f, shape)
	m.become(i.storage, t)
	return Tensor{impl: i}
}

// Parameter is a weight; with grad it is trained.
func (m *Machine) Parameter(f dtype.Format, grad bool, shape ...int64) Tensor {
	p := m.made(f, termWeights, shape)
	p.requiresGrad = grad
	return p
}

// Adapter is a trained weight beside the model's own.
func (m *Machine) Adapter(f dtype.Format, shape ...int64) Tensor {
	p := m.made(f, termAdapters, shape)
	p.requiresGrad = true
	return p
}

// Buffer is a tensor of the model that is no parameter.
func (m *Machine) Buffer(f dtype.Format, shape ...int64) Tensor { return m.made(f, termBuffers, shape) }

// Scales is what a packed weight has beside its elements: scales, and the tables
// that turn them back.
func (m *Machine) Scales(f dtype.Format, shape ...int64) Tensor { return m.made(f, termScales, shape) }

// Input is a tensor that the program is given.
func (m *Machine) Input(f dtype.Format, shape ...int64) Tensor { return m.made(f, termInput, shape) }

// State is a tensor that an optimizer keeps.
func (m *Machine) State(f dtype.Format, shape ...int64) Tensor {
	return m.made(f, termOptimizerState, shape)
}

// MasterCopy is weights in a wider format beside the model's.
func (m *Machine) MasterCopy(f dtype.Format, shape ...int64) Tensor {
	return m.made(f, termMasterCopy, shape)
}

// GradientBuffer is a tensor in which gradients of parameters lie.
func (m *Machine) GradientBuffer(f dtype.Format, shape ...int64) Tensor {
	return m.made(f, termGradients, shape)
}

// Scratch is what a library keeps between its calls.
func (m *Machine) Scratch(f dtype.Format, shape ...int64) Tensor {
	return m.made(f, termWorkspace, shape)
}

// AsActivation says that a tensor is kept for the work of a micro-batch.
func (m *Machine) AsActivation(t Tensor) Tensor {
	if t.impl != nil {
		m.become(t.storage, termActivations)
	}
	return t
}

// AsLogits says that a tensor is logits, which have a row of their own.
func (m *Machine) AsLogits(t Tensor) Tensor { m.become(t.storage, termLogits); return t }

// AsKept says that a tensor is predictions that a loop keeps.
func (m *Machine) AsKept(t Tensor) Tensor { m.become(t.storage, termKept); return t }

// AsState says that a tensor is an optimizer's.
func (m *Machine) AsState(t Tensor) Tensor { m.become(t.storage, termOptimizerState); return t }

// AsCache says that a tensor is keys and values kept for later positions.
func (m *Machine) AsCache(t Tensor) Tensor { m.become(t.storage, termKVCache); return t }

// GradOf gives a leaf a gradient of its own, as if backward had run before.
func (m *Machine) GradOf(p Tensor) {
	g := m.emptyLike(p.dtype, p.impl)
	m.become(g.storage, termGradients)
	p.grad = g
}

// Workspace gives the thread that runs the program (and the one that runs
// backward) the workspace of cuBLAS on its stream, as a process has it that multiplied
// there before.
func (m *Machine) Workspace(backward bool) {
	m.workspaceOf(forwardThread)
	if backward {
		m.workspaceOf(autogradThread)
	}
}

func (m *Machine) workspaceOf(t thread) {
	of := 2*m.stream + uint32(t)
	if slices.Contains(m.workspaces, of) || m.device.Workspace == 0 || m.pool == Replayed {
		return
	}
	m.workspaces = append(m.workspaces, of)
	m.allocate(m.device.Workspace, termWorkspace)
}

// GradientOf is the gradient of a leaf, for as long as the leaf has it.
func (m *Machine) GradientOf(p Tensor) Tensor { return Tensor{impl: p.grad} }

// RequireGrad is requires_grad_: backward computes a gradient of a leaf.
func (m *Machine) RequireGrad(t Tensor) Tensor { t.requiresGrad = true; return t }
