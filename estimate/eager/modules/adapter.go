package modules

import (
	"floodmark/dtype"
	"floodmark/internal/torch"
	"floodmark/model"
)

// AdapterKind is how an adapter changes a linear layer.
type AdapterKind string

// The kinds that have a program.
const (
	LowRank  AdapterKind = ""         // B(A(x)) is added
	Scaling  AdapterKind = "scaling"  // a vector scales the input or the output (IA3)
	Rotation AdapterKind = "rotation" // blocks turn the input (OFT)
	Prompt   AdapterKind = "prompt"   // positions that attention meets apart (LLaMA-Adapter)

	// Undescribed holds its tensors, and what it does in a pass has no program here.
	Undescribed AdapterKind = "undescribed"
)

// Adapter is an adapter on one linear layer.
type Adapter struct {
	Kind    AdapterKind
	Rank    int64        // of a rotation the number of blocks, of a prompt its positions
	Input   bool         // what is scaled is the input
	Format  dtype.Format // of its own weights
	Dropout bool         // of its input
	DoRA    bool         // with a trained magnitude of each output
	// Of a low-rank pair, the matrix that is not trained.
	FrozenDown, FrozenUp bool
	// Of one without a program: what it is called, and what it holds.
	Name   string
	Shapes [][]int64
	Frozen []FrozenTensor
}

// FrozenTensor is what an adapter holds and does not train.
type FrozenTensor struct {
	Format dtype.Format
	Shape  []int64
}

// lowRank is an adapter on a machine: [rank, in], [out, rank] and, with DoRA,
// [out].
type lowRank struct {
	Adapter
	down, up, magnitude torch.Tensor
	in                  int64
	// Of an adapter over query, key and value in one: the rows of each part that it is
	// on, whether others lack it, and the columns that it fills.
	rows   []int64
	padded bool
	places torch.Tensor
}

func (n *Net) lowRank(a Adapter, w Weight, shape []int64) *lowRank {
	r := &lowRank{Adapter: a, in: shape[1]}
	r.down = n.ofPair(w, a.FrozenDown, a.Format, a.Rank, shape[1])
	r.up = n.ofPair(w, a.FrozenUp, a.Format, shape[0], a.Rank)
	if a.DoRA {
		r.magnitude = n.beside(w, a.Format, shape[0])
		n.parameters = append(n.parameters, Parameter{Tensor: r.magnitude, Trained: true})
	}
	return r
}

// ofPair is a matrix of a low-rank pair.
func (n *Net) ofPair(w Weight, frozen bool, f dtype.Format, shape ...int64) torch.Tensor {
	if frozen {
		return n.m.Buffer(f, shape...)
	}
	t := n.beside(w, f, shape...)
	n.parameters = append(n.parameters, Parameter{Tensor: t, Trained: true})
	return t
}

// packed is a weight in 4 bits: half a byte an element, a byte or four for each
// block's scale, and with double quantisation four for every 256 blocks; and the
// tables of values, which every weight has for itself
// (https://github.com/bitsandbytes-foundation/bitsandbytes/blob/0.45.3/bitsandbytes/functional.py).
func (n *Net) packed(t model.Tensor, w Weight, shape []int64) *torch.Packed {
	if n.makesNF4() && !w.Absent {
		return n.clonedNF4(shape)
	}
	p := &torch.Packed{Shape: shape, Format: w.Format, Block: packedBlock, Nested: w.Nested}
	if n.o.Software == LitGPT {
		defer n.packedInPlace(p, w.Format)()
	}
	elements, _ := t.Parameters()
	p.Weight = n.weight(Weight{Format: dtype.U8, Absent: w.Absent}, false, []int64{(elements + 1) / 2, 1})
	n.packedScales(elements, w.Nested)
	return p
}

// packedScales makes what a weight in 4 bits has beside its words.
func (n *Net) packedScales(elements int64, nested bool) (made []torch.Tensor) {
	blocks := (elements + packedBlock - 1) / packedBlock
	add := func(f dtype.Format, shape ...int64) { made = append(made, n.m.Scales(f, shape...)) }
	add(dtype.F32, packedTable)
	if !nested {
		add(dtype.F32, blocks)
		return made
	}
	add(dtype.U8, blocks)
	add(dtype.F32, (blocks+nestedBlock-1)/nestedBlock)
	add(dtype.F32, nestedTable)
	add(dtype.F32) // the offset
	return made
}

// The blocks of bitsandbytes' defaults.
const (
	packedBlock = 64
	nestedBlock = 256
	packedTable = 16  // values of 4 bits
	nestedTable = 256 // values of 8 bits
)

// adapted runs a linear layer with an adapter beside it, as peft does: the
// layer's own result, and B(A(dropout(x))) times a number added to it
// (https://github.com/huggingface/peft/blob/v0.17.1/src/peft/tuners/lora/layer.py).
// A frozen layer keeps no input; A keeps it, and B keeps A's output.
func (n *Net) adapted(l linear, x torch.Tensor) torch.Tensor {
	if n.o.Software == Torchtune {
		return n.torchtuneAdapted(l, x)
	}
	if l.gptq != nil {
		return n.gptqAdapted(l, x)
	}
	m, a := n.m, l.adapter
	f := m.Module(l.name, &x)
	result := f.Let(n.base(l, x))
	format := result.Dtype()
	if l.packed != nil {
		f.Set(&result, m.Clone(result, false)) // peft copies what 4 bits made
	}
	f.Set(&x, m.To(x, a.Format))
	if a.DoRA {
		f.Set(&result, m.Binary(torch.Add, result, n.decomposed(l, x, result)))
	} else {
		delta := m.Unary(torch.MulScalar, n.delta(a, x))
		if l.packed != nil {
			delta = m.To(delta, format)
		}
		f.Set(&result, m.Binary(torch.Add, result, delta))
	}
	return f.Return(m.To(result, format))
}

// delta is B(A(dropout(x))).
func (n *Net) delta(a *lowRank, x torch.Tensor) torch.Tensor {
	if a.Dropout && n.drops() {
		x = n.m.Dropout(x)
	}
	inner := n.bare(linear{name: "lora_A", weight: a.down}, x)
	return n.bare(linear{name: "lora_B", weight: a.up}, inner)
}

// decomposed is DoRA's part of the result: the norm of the adapted weight is
// computed in whole, from a weight that B and A make of the unit matrix
// (https://github.com/huggingface/peft/blob/v0.17.1/src/peft/tuners/lora/dora.py).
func (n *Net) decomposed(l linear, x, base torch.Tensor) torch.Tensor {
	m, a := n.m, l.adapter
	f := m.Module("lora_magnitude_vector", &x, &base)
	eye := m.Function()
	unit := eye.Let(m.Empty("eye", a.Format, a.in, a.in))
	low := f.Let(eye.Return(m.Transpose(n.delta(&lowRank{down: a.down, up: a.up}, unit), 0, 1)))
	f.Set(&low, m.To(low, x.Dtype()))
	weight := f.Let(m.To(l.weight, x.Dtype()))
	norm := f.Let(n.weightNorm(weight, m.Detach(low)))
	scale := f.Let(m.Reshape(m.Binary(torch.Div, a.magnitude, norm), 1, -1))
	result := f.Let(n.delta(a, x))
	plain := m.Binary(torch.Mul, m.Unary(torch.SubScalar, scale), base)
	return f.Return(m.Binary(torch.Add, plain, m.Unary(torch.MulScalar, m.Binary(torch.Mul, scale, result))))
}

// weightNorm is the norm of each row of weight + scaling · low.
func (n *Net) weightNorm(weight, low torch.Tensor) torch.Tensor {
	m := n.m
	f := m.Function(&weight, &low)
	var norm torch.Tensor
	m.NoGrad(func() {
		f.Set(&weight, m.Binary(torch.Add, weight, m.Unary(torch.MulScalar, low)))
		norm = m.Empty("linalg_vector_norm", weight.Dtype(), weight.Size(0))
	})
	return f.Return(norm)
}
