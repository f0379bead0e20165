package megatron

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"floodmark/internal/torch"
	"floodmark/model"
	"floodmark/workload"
)

// The modules of mcore that Megatron-Bridge puts adapters beside, in its LoRA's own
// order (target_modules of src/megatron/bridge/peft/lora.py).
const (
	qkvTarget  = "linear_qkv"
	projTarget = "linear_proj"
	upTarget   = "linear_fc1"
	downTarget = "linear_fc2"
)

func targets() []string { return []string{qkvTarget, projTarget, upTarget, downTarget} }

// everyTarget is all of them.
const everyTarget = "all-linear"

// lora is an adapter beside a matrix, of one rank: two products with a narrow middle,
// each divided by what it makes but the first beside a matrix that is divided by what
// it reads (ParallelLinearAdapter of src/megatron/bridge/peft/utils.py).
type lora struct {
	in, out   torch.Tensor
	ranks     int64 // over which it is divided
	row       bool  // the matrix beside it is divided by what it reads
	local     bool  // what it reads is divided along the positions and gathered again in backward
	scattered bool  // its result is divided along the positions
}

// adapts reports a module that gets an adapter.
func (s *settings) adapts(target string) bool {
	return s.lora != nil && (slices.Contains(s.lora.Targets, target) || slices.Equal(s.lora.Targets, []string{everyTarget}))
}

// regathers reports an adapter that keeps what one rank has of its input
// (_sequence_parallel_input_regather_eligibility of src/megatron/bridge/peft/utils.py).
func (s *settings) regathers(target string) bool {
	return s.InputRegather && s.sequence && (target == qkvTarget || target == upTarget) &&
		s.granularity != workload.FullCheckpointing && !(target == upTarget && s.recomputes("mlp"))
}

// adapt puts an adapter beside a matrix where its module is a target.
func (r *run) adapt(target string, w *weight, expert bool) {
	s := r.te.s
	if !s.adapts(target) {
		return
	}
	a := &lora{ranks: s.tensor, row: !w.column, local: !expert && s.regathers(target)}
	if expert {
		a.ranks, a.row = int64(s.ExpertTensor), target == downTarget
	}
	a.scattered = !expert && a.row && s.sequence
	middle, parts, made := int64(s.lora.Rank), a.ranks, w.out
	if a.row {
		parts, made = 1, made/a.ranks
	}
	a.in = r.states.adapter(expert, middle/parts, w.in)
	a.out = r.states.adapter(expert, made, middle)
	w.lora = a
}

// beside is a product with what its adapter adds; x, which the adapter reads, is let go.
// Beside a matrix that is divided by what it reads, the rank's positions of the result
// are multiplied by alpha over the rank.
func (a *lora) beside(e *te, product, x torch.Tensor) torch.Tensor {
	if e.s.lora.Dropout {
		x = e.m.Dropout(x)
	}
	low := a.product(e, x, a.in, a.local, !a.row)
	high := a.product(e, low, a.out, false, a.row)
	if a.scattered {
		high = e.m.Slice(high, 0, 0, high.Size(0)/a.ranks)
	}
	return e.m.Binary(torch.Add, product, e.m.Unary(torch.MulScalar, high))
}

// product is linear_in or linear_out: mcore's own layer, which keeps what it reads. Where
// its parts are joined they are gathered one behind another and copied side by side
// (gather_from_tensor_model_parallel_region of megatron/core/tensor_parallel/mappings.py).
func (a *lora) product(e *te, x, w torch.Tensor, local, joined bool) torch.Tensor {
	f, rows, out, in := e.s.compute, x.Size(0), w.Size(0), w.Size(1)
	total := e.tokens(rows, local)
	joined = joined && a.ranks > 1
	return e.m.Apply1(torch.Function{
		Name: "LinearWithGradAccumulationAndAsyncCommunication",
		Forward: func(c *torch.Call) []torch.Tensor {
			c.Save(x, w)
			if local {
				e.gather(total * in)
			}
			e.m.Workspace(false)
			y := c.Empty(f, total, out)
			if joined {
				c.Empty(f, a.ranks*total, out)
				y = c.Empty(f, total, a.ranks*out)
			}
			return []torch.Tensor{y}
		},
		Backward: func(g *torch.Gradients) {
			if joined {
				g.Empty(f, total, out)
			}
			e.m.Workspace(true)
			given := g.Empty(f, total, in)
			if local {
				e.gather(total * in)
				given = g.Empty(f, rows, in)
			}
			e.weightGradient(g, 1, out, in, plainStands)
			if g.Needs(0) {
				g.Give(0, given)
			}
		},
	}, x, w)
}

// Tune is an adapter as Megatron-Bridge makes it on a model: which modules it names, and
// what it trains beside each, whole. Beside the experts of a layer stands one for each of
// the ranks that divide them (share_expert_adapters). Worked numbers: rank 32 beside
// linear_qkv of 4,096 to 6,144 columns trains 32 · 4,096 + 6,144 · 32 = 327,680
// parameters.
func Tune(m *model.Model, t workload.Tuning, mesh workload.Mesh) (workload.Tuning, error) {
	s := settings{lora: &t}
	for _, name := range t.Targets {
		if name != everyTarget && !slices.Contains(targets(), name) {
			return t, fmt.Errorf("the adapter targets %s, which Megatron-Bridge's LoRA does not: it has linear_qkv, linear_proj, linear_fc1 and linear_fc2", name)
		}
	}
	t.Modules = nil
	for i, tensor := range m.Tensors {
		name, whole := moduleOf(m, tensor)
		if name == "" || !s.adapts(name[strings.LastIndexByte(name, '.')+1:]) {
			continue
		}
		rank, in, out := int64(t.Rank), tensor.Shape[len(tensor.Shape)-1], tensor.Shape[len(tensor.Shape)-2]
		name = fmt.Sprintf("%d.%s", tensor.Layer, name)
		last := t.Modules[max(0, len(t.Modules)-modulesOfLayer):]
		if at := slices.IndexFunc(last, func(m workload.TunedModule) bool { return m.Module == name }); at >= 0 {
			if whole == 0 {
				last[at].Shapes[1][0] += out
			}
			continue
		}
		if whole > 0 { // of one expert
			experts := int64(max(1, mesh.ExpertParallel))
			rank, out = rank*experts, whole*experts
		}
		t.Modules = append(t.Modules, workload.TunedModule{Module: name, Tensor: i, Shapes: [][]int64{{rank, in}, {out, int64(t.Rank)}}})
	}
	if len(t.Modules) == 0 {
		return t, errors.New("the adapter targets no module that the model has")
	}
	return t, nil
}

// modulesOfLayer is the most modules of a layer that adapters stand beside.
const modulesOfLayer = 6

// moduleOf is the module of mcore that has a matrix, among those that adapters stand
// beside, and of experts what one of them makes; empty for others.
func moduleOf(m *model.Model, t model.Tensor) (name string, whole int64) {
	if t.Stack < 0 || int(t.Stack) >= len(m.Stacks) || t.Layer < 0 || int(t.Layer) >= len(m.Stacks[t.Stack].Layers) || len(t.Shape) < 2 {
		return "", 0
	}
	stack := m.Stacks[t.Stack]
	l := stack.Layers[t.Layer]
	switch t.Role {
	case model.RoleQKV, model.RoleQuery, model.RoleKey, model.RoleValue:
		if len(l.Mixers) > 0 {
			if _, latent := l.Mixers[0].(model.LatentAttention); !latent {
				name = qkvTarget
			}
		}
	case model.RoleAttentionOutput:
		name = projTarget
	case model.RoleGateUp, model.RoleGate, model.RoleUp:
		name = upTarget
	case model.RoleDown:
		name = downTarget
	case model.RoleSharedExpertGate, model.RoleSharedExpertUp:
		name = "shared_experts." + upTarget
	case model.RoleSharedExpertDown:
		name = "shared_experts." + downTarget
	}
	f, mixture := l.FeedForward.(model.Experts)
	if !mixture {
		return name, 0
	}
	switch t.Role {
	case model.RoleExpertGateUp, model.RoleExpertGate, model.RoleExpertUp:
		name, whole = "experts."+upTarget, int64(f.Width)
		if f.Gated {
			whole *= 2
		}
	case model.RoleExpertDown:
		name, whole = "experts."+downTarget, int64(stack.Width)
	}
	return name, whole
}
