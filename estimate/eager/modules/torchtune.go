package modules

import (
	"slices"

	"floodmark/dtype"
	"floodmark/internal/torch"
	"floodmark/model"
)

// What differs between releases of torchtune, by the day it came
// (https://github.com/meta-pytorch/torchtune, history of torchtune/modules and
// recipes).

// stepApart: the recipe's step is a function that lets go of its logits, and
// losses in parts are there (commit 4fba6cd44).
func (r Release) stepApart() bool { return r.since(0, 3, 20240828) }

// queryFirst: the query is projected and turned before key and value are there,
// and what is normed and what the network makes have names (commits 2444327e4,
// 8451b0df3).
func (r Release) queryFirst() bool { return r.since(0, 3, 20240905) }

// patched: what came on a day before 0.3.1 and is not in 0.3.0.
func (r Release) patched(day int) bool {
	return r.since(0, 3, day) && r != Release{Minor: 3}
}

// repeatsTurned: keys and values are repeated for groups of heads after they were
// turned, not before (commit bc2c0138a, in 0.3.1).
func (r Release) repeatsTurned() bool { return r.patched(20240916) }

// turnsOnce: builders whose positions are stretched make one table of rotary
// positions and each layer by itself (commit b0895a798, in 0.3.1).
func (r Release) turnsOnce() bool { return r.patched(20240912) }

// makesEach: so do all builders (commit 23896c30d). Those that put adapters on a
// model whose positions are not stretched make a table for each layer still.
func (r Release) makesEach() bool { return r.since(0, 6, 20250127) }

// repeatsHeads: they are repeated as [batch, heads, length, dim] (commit e1caa9f82).
func (r Release) repeatsHeads() bool { return r.since(0, 5, 20241110) }

// builtInNorm: norms are torch's rms_norm in 32 bits (commit 1450d6126).
func (r Release) builtInNorm() bool { return r.since(0, 5, 20241125) }

// dropsInAdapters: builders hand the dropout of adapters on (commit 9f31a882a).
func (r Release) dropsInAdapters() bool { return r.since(0, 2, 20240517) }

// lossChunks is the parts in which CEWithChunkedOutputLoss takes a sequence.
const lossChunks = 8

// torchtuneLoss is a step of full_finetune_single_device.py and
// lora_finetune_single_device.py up to its loss.
func (n *Net) torchtuneLoss(b Batch) torch.Tensor {
	if !n.o.Release.stepApart() {
		return n.torchtuneInLoop(b)
	}
	m := n.m
	f := m.Function(&b.Labels)
	logits := n.torchtuneLogits(b)
	for i := len(logits) - 2; i >= 0; i-- { // a list goes from its end; the last has a name of its own
		logits[i] = f.Let(logits[i])
	}
	logits[len(logits)-1] = f.Let(logits[len(logits)-1])
	n.beforeLoss()
	length := b.Labels.Size(1)
	f.Set(&b.Labels, m.Cat(1, m.Slice(b.Labels, 1, 1, length), b.Ignored))
	if n.o.Loss == ChunkedLoss {
		return f.Return(n.lossInParts(logits, b.Labels))
	}
	f.Set(&b.Labels, m.Reshape(b.Labels, -1))
	f.Set(&logits[0], m.Reshape(logits[0], -1, logits[0].Size(-1)))
	return f.Return(m.CrossEntropy(logits[0], b.Labels))
}

// torchtuneInLoop is the step as it was written out in the loop: logits and
// labels live until the next ones are there.
func (n *Net) torchtuneInLoop(b Batch) torch.Tensor {
	m, l := n.m, &n.loop
	n.bind(&l.labels, b.Labels)
	n.bind(&l.logits, n.torchtuneLogits(b)[0])
	n.beforeLoss()
	length := l.labels.Size(1)
	n.bind(&l.logits, m.Contiguous(m.Slice(l.logits, 1, 0, length-1)))
	n.bind(&l.labels, m.Contiguous(m.Slice(l.labels, 1, 1, length)))
	n.bind(&l.logits, m.Transpose(l.logits, 1, 2))
	f := m.Module("loss")
	return f.Return(m.CrossEntropy(l.logits, l.labels))
}

func (n *Net) beforeLoss() {
	if n.o.BeforeLoss != nil {
		n.o.BeforeLoss()
	}
}

// lossInParts is CEWithChunkedOutputLoss: logits of a part are widened for their
// own loss alone.
func (n *Net) lossInParts(logits []torch.Tensor, labels torch.Tensor) torch.Tensor {
	m := n.m
	f := m.Module("loss", &labels)
	m.Drop(m.Sum(m.Unary(torch.EqScalar, labels), false))
	var targets []torch.Tensor
	at := int64(0)
	for _, part := range logits {
		next := at + part.Size(1)
		targets = append(targets, f.Let(m.Reshape(m.Slice(labels, 1, at, next), -1)))
		at = next
	}
	var total torch.Tensor
	for i, part := range logits {
		flat := f.Let(m.Reshape(part, -1, part.Size(-1)))
		one := m.CrossEntropy(m.To(flat, dtype.F32), targets[i])
		if total.Defined() {
			one = m.Binary(torch.Add, total, one)
		}
		total = one
	}
	return f.Return(m.Unary(torch.DivScalar, total))
}

// torchtuneLogits is TransformerDecoder: logits in 32 bits, or those of each part
// as they are.
func (n *Net) torchtuneLogits(b Batch) []torch.Tensor {
	m, s := n.m, n.stacks[0]
	n.begins()
	f := m.Module("", &b.IDs)
	var at torch.Tensor
	if b.Positions.Defined() {
		at = f.Let(b.Positions)
	}
	h := f.Let(n.embedded(b.IDs))
	for i := range s.layers {
		n.before(&s.layers[i], h)
		f.Set(&h, n.checkpointed(h, func(x torch.Tensor) torch.Tensor { return n.torchtuneLayer(&s.layers[i], x, at) }))
		n.after(&s.layers[i], h)
	}
	f.Set(&h, n.torchtuneNorm(n.outside.one(model.RoleFinalNorm), h))
	head := n.outside.module("output", model.RoleHead, model.RoleHeadBias)
	if n.o.Loss != ChunkedLoss {
		logits := f.Let(m.AsLogits(m.To(n.linear(head, h), dtype.F32)))
		n.ends(logits)
		return []torch.Tensor{f.Return(logits)}
	}
	var logits []torch.Tensor
	for _, part := range m.Split(h, 1, inParts(h.Size(1), lossChunks)...) {
		logits = append(logits, m.AsLogits(n.linear(head, part)))
	}
	n.ends(logits[len(logits)-1]) // whose gradient comes first
	f.End()
	return logits
}

// inParts is a length as torch.chunk cuts it: parts of one length, the last what
// is left.
func inParts(length, parts int64) []int64 {
	each := (length + parts - 1) / parts
	var list []int64
	for at := int64(0); at < length; at += each {
		list = append(list, min(each, length-at))
	}
	return list
}

// checkpointed runs a layer on the stream, computed again in backward where that is
// asked for. What it shares with other layers lasts until then.
func (n *Net) checkpointed(x torch.Tensor, layer func(torch.Tensor) torch.Tensor, shared ...torch.Tensor) torch.Tensor {
	if !n.recomputes() {
		return layer(x)
	}
	return n.m.Checkpoint(n.o.Reentrant, func(args []torch.Tensor) torch.Tensor { return layer(args[0]) }, append([]torch.Tensor{x}, shared...)...)
}

// torchtuneLayer is TransformerSelfAttentionLayer.
func (n *Net) torchtuneLayer(l *layer, x, at torch.Tensor) torch.Tensor {
	m := n.m
	f := m.Module("layers", &x)
	var h, attended torch.Tensor
	if n.o.Release.queryFirst() {
		h = f.Let(n.torchtuneNorm(l.at(model.RoleNorm, 0).weight, x))
		attended = f.Let(n.torchtuneAttention(l, h, at))
		f.Set(&h, m.Binary(torch.Add, attended, x))
	} else {
		attended = f.Let(n.torchtuneAttention(l, n.torchtuneNorm(l.at(model.RoleNorm, 0).weight, x), at))
		h = f.Let(m.Binary(torch.Add, attended, x))
	}
	made := f.Let(n.torchtuneNetwork(l, n.torchtuneNorm(l.at(model.RoleNorm, 1).weight, h)))
	return f.Return(m.Binary(torch.Add, h, made))
}

// torchtuneNorm is RMSNorm.
func (n *Net) torchtuneNorm(w, x torch.Tensor) torch.Tensor {
	m, was := n.m, x.Dtype()
	f := m.Module("norm", &x)
	if n.o.Release.builtInNorm() {
		return f.Return(m.To(m.RMSNorm(m.To(x, dtype.F32), w), was))
	}
	wide := f.Let(m.To(x, dtype.F32))
	r := m.Unary(torch.Rsqrt, m.Unary(torch.AddScalar, m.Mean(m.Unary(torch.Square, wide), true, -1)))
	normed := f.Let(m.To(m.Binary(torch.Mul, wide, r), was))
	return f.Return(m.Binary(torch.Mul, normed, w))
}

// torchtuneNetwork is FeedForward.
func (n *Net) torchtuneNetwork(l *layer, x torch.Tensor) torch.Tensor {
	m, d := n.m, l.FeedForward.(model.Dense)
	f := m.Module("mlp", &x)
	down := l.linear("w2", model.RoleDown, model.RoleDownBias, 0)
	gate := n.activation(d.Activation, n.linear(l.linear("w1", model.RoleGate, model.RoleGateBias, 0), x))
	up := l.linear("w3", model.RoleUp, model.RoleUpBias, 0)
	if !n.o.Release.queryFirst() {
		return f.Return(n.linear(down, m.Binary(torch.Mul, gate, n.linear(up, x))))
	}
	h := f.Let(gate)
	f.Set(&h, m.Binary(torch.Mul, h, n.linear(up, x)))
	f.Set(&h, n.linear(down, h))
	return f.Return(h)
}

// torchtuneAttention is MultiHeadAttention, which was CausalSelfAttention.
func (n *Net) torchtuneAttention(l *layer, x, at torch.Tensor) torch.Tensor {
	m, a := n.m, l.Mixers[0].(model.Attention)
	f := m.Module("attn", &x)
	projected := func(weight, bias model.Role) torch.Tensor {
		return f.Let(n.linear(l.linear("proj", weight, bias, 0), x))
	}
	q := projected(model.RoleQuery, model.RoleQueryBias)
	first := n.o.Release.queryFirst()
	if first {
		f.Set(&q, n.split(q, a.KeyDim))
		f.Set(&q, n.turnedPairs(q, at))
		f.Set(&q, n.heads(q))
	}
	k, v := projected(model.RoleKey, model.RoleKeyBias), projected(model.RoleValue, model.RoleValueBias)
	if !first {
		f.Set(&q, n.split(q, a.KeyDim))
	}
	groups := int64(a.QueryHeads / a.KVHeads)
	f.Set(&k, n.split(k, a.KeyDim))
	f.Set(&v, n.split(v, a.ValueDim))
	n.torchtuneRepeated(f, &k, &v, groups, !n.o.Release.repeatsTurned())
	if !first {
		f.Set(&q, n.turnedPairs(q, at))
	}
	f.Set(&k, n.turnedPairs(k, at))
	n.torchtuneRepeated(f, &k, &v, groups, n.o.Release.repeatsTurned() && !n.o.Release.repeatsHeads())
	if !first {
		f.Set(&q, n.heads(q))
	}
	f.Set(&k, n.heads(k))
	f.Set(&v, n.heads(v))
	if groups > 1 && n.o.Release.repeatsHeads() {
		f.Set(&k, n.repeated(k, groups))
		f.Set(&v, n.repeated(v, groups))
	}
	how := torch.Attention{Causal: true}
	how.Kernel = n.kernel(how, q, k, v, torch.Tensor{})
	out := f.Let(m.ScaledDotProduct(how, q, k, v, torch.Tensor{}))
	f.Set(&out, n.joined(m.Contiguous(m.Transpose(out, 1, 2))))
	return f.Return(n.linear(l.linear("output_proj", model.RoleAttentionOutput, model.RoleAttentionOutputBias, 0), out))
}

// torchtuneRepeated makes keys and values [batch, length, heads, dim] those of
// every query head, side by side, where it is time for that.
func (n *Net) torchtuneRepeated(f *torch.Frame, k, v *torch.Tensor, times int64, now bool) {
	if times == 1 || !now {
		return
	}
	m := n.m
	wide := func(x torch.Tensor) torch.Tensor {
		return m.Expand(m.Unsqueeze(x, 3), x.Size(0), x.Size(1), x.Size(2), times, x.Size(3))
	}
	side := func(x torch.Tensor) torch.Tensor { return m.Reshape(x, x.Size(0), x.Size(1), -1, x.Size(4)) }
	f.Set(k, wide(*k))
	f.Set(v, wide(*v))
	f.Set(k, side(*k))
	f.Set(v, side(*v))
}

// turnedPairs is RotaryPositionalEmbeddings over [batch, length, heads, dim]:
// neighbouring elements are turned together, in 32 bits.
func (n *Net) turnedPairs(x, at torch.Tensor) torch.Tensor {
	m, was := n.m, x.Dtype()
	batch, length, heads, dim := x.Size(0), x.Size(1), x.Size(2), x.Size(3)
	f := m.Module("pos_embeddings", &x)
	var table torch.Tensor
	if at.Defined() {
		table = f.Let(m.IndexRows(n.turns, at))
	} else {
		table = f.Let(m.Slice(n.turns, 0, 0, length))
	}
	pairs := f.Let(m.Reshape(m.To(x, dtype.F32), batch, length, heads, -1, 2))
	f.Set(&table, m.Reshape(table, -1, length, 1, dim/2, 2))
	part := func() torch.Tensor {
		return m.Binary(torch.Mul, m.Select(pairs, -1), m.Select(table, -1))
	}
	first := m.Keep(m.Binary(torch.Sub, part(), part()))
	second := m.Keep(m.Binary(torch.Add, part(), part()))
	turned := f.Let(m.Stack(-1, first, second))
	m.Drop(second, first) // a list goes from its end
	f.Set(&turned, m.Reshape(turned, batch, length, heads, dim))
	return f.Return(m.To(turned, was))
}

// torchtuneBuffers is the tables of rotary positions: one for each layer, or one
// for all. Worked number: that of Llama-3.1-8B is of 131,072 positions × 64 angles ×
// 2 × 4 B = 64 MiB, 32 times that in 0.3.0 and once from 0.3.1 on.
func (n *Net) torchtuneBuffers() {
	tables := len(n.stacks[0].layers)
	if n.turnsOnce() {
		tables = 1
	}
	for range tables {
		n.turningTable()
	}
}

// turnsOnce: the builder gives all layers the same RotaryPositionalEmbeddings.
func (n *Net) turnsOnce() bool {
	if n.stretchedInBuilder() {
		return n.o.Release.turnsOnce()
	}
	return n.o.Release.makesEach() && n.o.Adapter == nil
}

// stretchedInBuilder: the model is one of Llama 3.1 and later, whose builders stretch
// rotary positions (Llama3ScaledRoPE).
func (n *Net) stretchedInBuilder() bool { return n.model.RotaryScaling == "llama3" }

// turningTable is the angles and the sines and cosines of one
// RotaryPositionalEmbeddings.
func (n *Net) turningTable() {
	if n.model.MaxPosition == 0 || n.rotary == 0 {
		return
	}
	n.frequencies = n.m.Buffer(dtype.F32, n.rotary/2)
	n.turns = n.m.Buffer(dtype.F32, int64(n.model.MaxPosition), n.rotary/2, 2)
}

// copiesLayers: the builder makes one layer and copies it so many times, and does not
// make each (torchtune/models/*/_component_builders.py, TransformerDecoder's layers).
func (n *Net) copiesLayers() bool {
	if n.stretchedInBuilder() {
		return !n.o.Release.turnsOnce()
	}
	return !n.o.Release.makesEach()
}

// firstLayer is the layer that the builder copies, which lives until the copies
// are there. Worked number: one of Llama-2-7B in 16 bits is 404,766,720 bytes; the
// recipe's log says 13.96 GB after the model was made, of which the model with
// adapters and tables is 13.55 (docs/source/tutorials/qlora_finetune.rst).
func (n *Net) firstLayer() (drop func()) {
	if n.o.Software != Torchtune || !n.copiesLayers() || len(n.stacks) == 0 {
		return func() {}
	}
	var made []torch.Tensor
	for _, t := range n.model.Tensors {
		if t.Stack != 0 || t.Layer != 0 {
			continue
		}
		w := n.held(t)
		if w.Absent { // the recipe for several ranks makes the model without bytes
			continue
		}
		wide := n.m.Parameter(w.Format, false, t.Shape...)
		if !w.Packed || !n.makesNF4() {
			made = append(made, wide)
			continue
		}
		p := n.m.ToNF4(wide)
		n.m.Drop(wide)
		made = append(append(made, p.Beside...), p.Weight)
	}
	return func() { n.m.Drop(made...) }
}

// makesNF4: weights in 4 bits are made on the device by the torchao that the release
// asks for, which packs a weight in one piece (torchao==0.1 in pyproject.toml of
// v0.1.0).
func (n *Net) makesNF4() bool { return n.o.Software == Torchtune && !n.o.Release.since(0, 2, 0) }

// clonedNF4 is a weight of a layer as the copy of the first layer's.
func (n *Net) clonedNF4(shape []int64) *torch.Packed {
	p := n.m.CloneNF4(torch.Packed{Shape: shape})
	n.inPlace = append(n.inPlace, &p)
	return &p
}

// loadNF4 packs the checkpoint's weights, one after the other, when the model is
// there (load_state_dict of the recipe, torchtune/utils/_register_nf4_dispatch_ops.py).
func (n *Net) loadNF4() {
	for i, p := range n.inPlace {
		n.m.LoadNF4(p)
		n.packed4[i].Tensor = p.Weight
	}
}

// torchtuneLacks is what of a model torchtune builds of other modules than these.
func (n *Net) torchtuneLacks() string {
	if !slices.Contains([]string{"llama", "mistral"}, n.model.Type) {
		return "torchtune's modules have a program for Llama and Mistral, not for " + n.model.Type
	}
	if n.o.Attention == Eager {
		return "torchtune has no eager attention"
	}
	for _, t := range n.model.Tensors {
		switch w := n.held(t); {
		case !w.Absent:
		case w.Packed:
			return "packed weights of torchtune that ranks gather have no program here"
		case !n.o.Release.since(0, 3, 0):
			return "torchtune's recipes for several ranks were of FSDP1 before 0.3, and have a program of FSDP2 alone"
		}
	}
	for _, l := range n.stacks[0].layers {
		if _, dense := l.FeedForward.(model.Dense); !dense || l.has(model.RoleQKV) || l.has(model.RoleGateUp) {
			return "torchtune has projections of their own for query, key, value, gate and up, and this model does not"
		}
	}
	return ""
}

// torchtuneAdapted is LoRALinear.
func (n *Net) torchtuneAdapted(l linear, x torch.Tensor) torch.Tensor {
	m, a := n.m, l.adapter
	f := m.Module(l.name, &x)
	out := f.Let(n.product(f, l, x))
	in := x
	if a.Dropout && n.o.Training && n.o.Release.dropsInAdapters() {
		in = m.Dropout(x)
	}
	inner := f.Let(n.bare(linear{name: "lora_a", weight: a.down}, in))
	f.Set(&inner, m.Unary(torch.MulScalar, n.bare(linear{name: "lora_b", weight: a.up}, inner)))
	return f.Return(m.Binary(torch.Add, out, inner))
}
