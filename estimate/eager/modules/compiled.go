package modules

import (
	"slices"

	"floodmark/dtype"
	"floodmark/internal/torch"
	"floodmark/model"
)

// What torch.compile makes of one TransformerBlock of torchtitan, compiled by itself:
// one operator, whose forward keeps what AOTAutograd's partitioner cuts the graph at,
// and whose backward is one operator that computes the rest again. Products of
// matrices and attention are kernels, whose operands and results are buffers; what
// lies between two of them is fused, but for the complex numbers of rotary positions,
// which inductor computes as eager mode does
// (https://github.com/pytorch/pytorch/blob/v2.6.0/torch/_functorch/partitioners.py;
// recordings of releases 2.6 and 2.15, testdata/compiled).

// kept is what a compiled block keeps for backward beside its input and its weights.
type kept struct {
	turned  bool // norms' outputs and rows, query, key and value as attention reads them
	query   bool // the products of query and value
	attends bool // what attention gives out, and 4 bytes a query and head
	gate    bool // the product of the gate
	network bool // output projection, up, and the gated product
}

// keptBy is the rule. Without checkpointing it is what the partitioner's cut of least
// bytes leaves: every operand and result of a product that backward reads, and nothing
// that fuses. What a checkpoint's policy must save is saved where backward reads it,
// so that the last product is not; and of a full checkpoint the input stays. In FP8 these
// two keep the same beside scalars (testdata/compiled/float8_block.txt).
// Worked number: Llama 3 8B over 8,192 tokens in bf16 keeps, without checkpointing,
// seven tensors of 67,108,864 bytes beside its input, three of 234,881,024 and
// 1,114,112 of numbers a row or head; by operators two of the former, a value of
// 16,777,216, one of the latter and 1,048,576.
func (n *Net) keptBy(l *layer) kept {
	switch {
	case n.o.Chooses:
		return kept{query: true, attends: true, gate: true}
	case n.titanRecomputes(l):
		return kept{}
	}
	return kept{turned: true, attends: true, gate: true, network: true}
}

// buffers is a running region: it makes tensors and lets go of them.
type buffers interface {
	Empty(f dtype.Format, shape ...int64) torch.Tensor
	Free(t torch.Tensor)
	Alias(t torch.Tensor, shape ...int64) torch.Tensor
	Flash(q, k torch.Tensor) (out, lse torch.Tensor)
}

// region is a block's sizes, and its tensors by their names while it runs.
type region struct {
	buffers
	format                       dtype.Format
	batch, length                int64
	width, inner, heads, kvHeads int64
	head                         int64
	fused                        bool // one product for query, key and value, and flex attention
	kept                         kept
	begins                       func() // is told of each backward; nil for nobody

	rows, normed                         torch.Tensor // of the norm before attention
	query, key, value                    torch.Tensor // products
	turnedQuery, turnedKey, turnedValue  torch.Tensor // as attention reads them
	table                                torch.Tensor // rows of rotary positions, where they are gathered
	out, lse                             torch.Tensor
	attended                             torch.Tensor // the output projection's
	networkRows, networkNormed, gate, up torch.Tensor
	product                              torch.Tensor
}

// regionOf is the sizes of a block over x.
func (n *Net) regionOf(l *layer, x torch.Tensor, batch int64) region {
	a := l.Mixers[0].(model.Attention)
	return region{
		format: x.Dtype(), batch: batch, length: x.Elements() / x.Size(-1) / batch, width: x.Size(-1),
		inner: l.one(model.RoleGate).Size(0), heads: int64(a.QueryHeads), kvHeads: int64(a.KVHeads), head: int64(a.KeyDim),
		fused: n.o.Release.fusesQKV(), kept: n.keptBy(l),
	}
}

// wide is a tensor of so many elements a position.
func (r *region) wide(width int64) torch.Tensor {
	return r.Empty(r.format, r.batch*r.length, width)
}

// numbers is one number of 32 bits a position.
func (r *region) numbers() torch.Tensor { return r.Empty(dtype.F32, r.batch*r.length) }

// complex is heads in complex numbers of 64 bits, which are four times two bytes for
// two elements.
func (r *region) complex(heads int64) torch.Tensor {
	return r.Empty(dtype.F32, r.batch*r.length, heads*r.head)
}

// perHead is query, key or value as attention reads them: of every query's head.
func (r *region) perHead() torch.Tensor {
	return r.Empty(r.format, r.batch, r.heads, r.length, r.head)
}

// let ends what is there and not kept.
func (r *region) let(kept bool, list ...*torch.Tensor) {
	for _, t := range list {
		if !kept && t.Defined() {
			r.Free(*t)
			*t = torch.Tensor{}
		}
	}
}

// project makes the norm before attention and the three products.
func (r *region) project() {
	r.rows, r.normed = r.numbers(), r.wide(r.width)
	if !r.query.Defined() {
		r.query = r.wide(r.products())
	}
	if r.fused {
		return
	}
	r.key = r.wide(r.kvHeads * r.head)
	if !r.value.Defined() {
		r.value = r.wide(r.kvHeads * r.head)
	}
}

// turn makes query and key of the products, turned as complex numbers, and repeats
// keys and values for the heads that share them.
func (r *region) turn(keepsNorm bool) {
	if r.fused {
		r.turnFused(keepsNorm)
		return
	}
	wideQ, wideK := r.complex(r.heads), r.complex(r.kvHeads)
	r.let(false, &r.key)
	outQ := r.complex(r.heads)
	r.let(false, &wideQ)
	outK := r.complex(r.kvHeads)
	r.let(false, &wideK)
	r.let(r.kept.query, &r.query)
	r.let(r.kept.turned || keepsNorm, &r.normed)
	r.turnedQuery, r.turnedKey, r.turnedValue = r.perHead(), r.perHead(), r.perHead()
	r.let(false, &outQ, &outK)
	r.let(r.kept.query, &r.value)
}

// network makes the norm before the network and its first two products.
func (r *region) network() {
	r.networkRows, r.networkNormed = r.numbers(), r.wide(r.width)
	if !r.gate.Defined() {
		r.gate = r.wide(r.inner)
	}
	r.up = r.wide(r.inner)
}

// compiledBlock is the block as a compiled region.
func (n *Net) compiledBlock(l *layer, x torch.Tensor, batch int64) torch.Tensor {
	r := n.regionOf(l, x, batch)
	n.blocksFrom = 0
	r.begins = n.backs
	weights := []torch.Tensor{
		l.at(model.RoleNorm, 0).weight, l.one(model.RoleQuery), l.one(model.RoleKey), l.one(model.RoleValue), l.one(model.RoleAttentionOutput),
		l.at(model.RoleNorm, 1).weight, l.one(model.RoleGate), l.one(model.RoleUp), l.one(model.RoleDown),
	}
	return n.m.Apply1(r.function(x, weights), append([]torch.Tensor{x}, weights...)...)
}

// function is the region as an operator on its input and weights, all of which it
// keeps.
func (r region) function(x torch.Tensor, weights []torch.Tensor) torch.Function {
	saved := append([]torch.Tensor{x}, weights...)
	return torch.Function{Name: "CompiledFunction",
		Forward: func(c *torch.Call) []torch.Tensor {
			forward := r
			forward.buffers = c
			out := forward.forward()
			c.Save(append(saved, forward.list()...)...)
			return []torch.Tensor{out}
		},
		Backward: func(g *torch.Gradients) {
			if r.begins != nil {
				r.begins()
			}
			backwardOf(r, g, len(saved)).run(weights)
		},
	}
}

// forward is the region's forward.
func (r *region) forward() torch.Tensor {
	r.project()
	r.turn(false)
	r.out, r.lse = r.Flash(r.turnedQuery, r.turnedKey)
	r.let(r.kept.turned, &r.turnedQuery, &r.turnedKey, &r.turnedValue)
	r.attended = r.wide(r.width)
	r.let(r.kept.attends, &r.out, &r.lse)
	r.network()
	r.let(r.kept.turned, &r.rows, &r.networkRows)
	if !r.kept.network {
		r.product, r.up = r.up, torch.Tensor{} // in its place
	} else {
		r.product = r.wide(r.inner)
	}
	r.let(r.kept.turned, &r.networkNormed)
	r.let(r.kept.gate, &r.gate)
	down := r.wide(r.width)
	r.let(r.kept.network, &r.product)
	if r.kept.network {
		return down
	}
	result := r.attended // in its place
	r.let(false, &down)
	r.attended = torch.Tensor{}
	return result
}

// list is what is kept, in one order; what is not is missing.
func (r *region) list() []torch.Tensor {
	var list []torch.Tensor
	for _, t := range r.all() {
		if t.Defined() {
			list = append(list, *t)
		}
	}
	return list
}

// all is every tensor that can be kept.
func (r *region) all() []*torch.Tensor {
	k := r.kept
	var list []*torch.Tensor
	add := func(kept bool, these ...*torch.Tensor) {
		if kept {
			list = append(list, these...)
		}
	}
	add(k.query, &r.query)
	add(k.query && !r.fused, &r.value)
	add(k.turned && r.fused, &r.table)
	add(k.turned, &r.rows, &r.normed, &r.turnedQuery, &r.turnedKey, &r.turnedValue)
	add(k.attends, &r.out, &r.lse)
	add(k.network, &r.attended)
	add(k.turned, &r.networkRows, &r.networkNormed)
	add(k.gate, &r.gate)
	add(k.network, &r.up, &r.product)
	return list
}

// Reordered is the most that a compiled block's backward may hold beside what it holds
// here: inductor orders kernels by what it estimates to be alive, and for shorter
// sequences was recorded to make the gradients of weights last, until which three
// tensors of the network's width stay (torch/_inductor/memory.py). In FP8 every product
// reads its operands from copies of 8 bits, of which one by rows and one by columns may
// be there of each (torchao, float8_linear.py, matmul_with_hp_or_float8_args). Worked
// number: over 8,192 tokens of Llama 3 8B in bf16 they are 3 · 234,881,024 bytes; in FP8
// 2 · 8,192 · 81,920 more of inputs and gradients, and 2 · 218,103,808 of weights.
func (n *Net) Reordered(positions int64) int64 {
	var most int64
	for _, l := range n.stacks[0].layers {
		if n.tensorRanks() > 1 {
			most = max(most, n.reorderedAcross(&l, positions))
			continue
		}
		gate := l.one(model.RoleGate)
		bytes, _ := l.at(model.RoleNorm, 0).weight.Dtype().Size([]int64{3, positions, gate.Size(0)})
		for _, role := range products() {
			if w := l.one(role); n.o.FP8 {
				operands, _ := dtype.F8E4M3.Size([]int64{2, positions, w.Size(0) + w.Size(1)})
				bytes += operands + 2*w.Elements()
			}
		}
		most = max(most, bytes)
	}
	return most
}

// products are the matrices of a block.
func products() []model.Role {
	return []model.Role{model.RoleQuery, model.RoleKey, model.RoleValue, model.RoleAttentionOutput, model.RoleGate, model.RoleUp, model.RoleDown}
}

// Multiplies reports the role of a matrix of a block.
func Multiplies(role model.Role) bool { return slices.Contains(products(), role) }

// backs notes when backward came to its first block.
func (n *Net) backs() {
	if n.blocksFrom == 0 {
		n.blocksFrom = n.m.Moment()
	}
}

// BlocksFrom is the moment at which the backward of the last micro-batch came to its
// first compiled block.
func (n *Net) BlocksFrom() int { return n.blocksFrom }

// compileLacks is why a compiled block of this layer is not known.
func (n *Net) compileLacks(l *layer) string {
	switch a, attends := l.Mixers[0].(model.Attention); {
	case !n.o.Release.compilesBlocks() && !n.o.Breaks:
		return "torch.compile of a whole model without fully_shard (FSDP2) fuses and reorders operators, which is not modelled; torchtitan compiles each block since 2024-05-21"
	case n.o.FP8 && !n.o.Chooses && !n.titanRecomputes(l):
		return "what FP8 keeps of a compiled block that is not computed again is not modelled"
	case n.o.CPU:
		return "what torch.compile makes for a CPU is not modelled"
	case !attends || a.KVHeads < 2 && n.tensorRanks() == 1 || a.KeyDim > widestFlash:
		return "what torch.compile keeps of attention with one key head, or heads wider than flash attention takes, is not modelled"
	case l.at(model.RoleNorm, 0).weight.Dtype() == dtype.F32:
		return "what torch.compile keeps of blocks in 32 bits is not modelled"
	case n.tensorRanks() > 1:
		return n.acrossLacks(l)
	}
	return ""
}
