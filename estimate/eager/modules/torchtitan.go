package modules

import (
	"slices"

	"floodmark/dtype"
	"floodmark/internal/torch"
	"floodmark/model"
)

// What differs between commits of torchtitan, by the day they came
// (https://github.com/pytorch/torchtitan, history of train.py and of the model,
// which was torchtrain/models/llama/model.py).

// unfolds: batch and sequence stay two dimensions; before, layers had them as one
// (commit 25f9bff2b).
func (r Release) unfolds() bool { return r.since(0, 1, 20240403) }

// dropsLogits: the loop lets go of the logits before backward (commit e29b6b4d4).
func (r Release) dropsLogits() bool { return r.since(0, 1, 20240612) }

// widensInLoss: logits are widened by the loss, not by the model (commit
// e10cb9494).
func (r Release) widensInLoss() bool { return r.since(0, 1, 20241022) }

// compilesBlocks: torch.compile is of each block by itself; before, of the whole model
// (commit 9954e19cc), which hooks of fully_shard break up (compiled_whole.go).
func (r Release) compilesBlocks() bool { return r.since(0, 1, 20240521) }

// compilesLoss: the loss is compiled too, where the blocks are; for a while it was not
// (commits e10cb9494, e8977b007 and bbb1b616e).
func (r Release) compilesLoss() bool {
	return r.widensInLoss() && !r.since(0, 1, 20241218) || r.since(0, 1, 20250402)
}

// normsByTorch: norms are torch.nn.RMSNorm (commit 5078e92e4).
func (r Release) normsByTorch() bool { return r.since(0, 1, 20250417) }

// everySecondProduct is what torchtitan's selective checkpointing of operators
// keeps: attention, what ranks scatter, and of the products of matrices the first, the
// third and so on
// (parallelize_llama.py, _save_list and _custom_policy). Worked number: of a layer of
// Llama it keeps query, value, what attends, the gate and what comes down; key, what
// attention gives out and the network's other half are computed again.
func everySecondProduct(op string, n int) bool {
	return op == "sdpa" || op == "reduce_scatter" || op == "mm" && n%2 == 1
}

// titanLoss is a step of train.py up to its loss. The loop has names for the logits
// where it does not let go of them.
func (n *Net) titanLoss(b Batch) torch.Tensor {
	if n.o.Release.fusesQKV() {
		return n.titanLossWithHead(b)
	}
	m := n.m
	n.begins()
	logits := m.Keep(n.titanLogits(b))
	n.ends(logits)
	n.beforeLoss()
	loss := n.titanLossOf(logits, b.Labels)
	if n.o.Release.dropsLogits() {
		m.Drop(logits)
	} else {
		m.Drop(n.loop.logits)
		n.loop.logits = logits
	}
	return loss
}

// titanLossOf is the loss of logits, whole or in parts.
func (n *Net) titanLossOf(logits, labels torch.Tensor) torch.Tensor {
	m := n.m
	f := m.Function()
	if n.o.Compiles && n.o.Release.compilesLoss() && !n.o.EagerLoss {
		return f.Return(n.compiledLoss(logits, labels))
	}
	flat := func(x torch.Tensor) torch.Tensor {
		x = m.Reshape(x, -1, x.Size(-1))
		if n.o.Release.widensInLoss() {
			x = m.AsLogits(m.To(x, dtype.F32))
		}
		return x
	}
	if n.o.Loss == ChunkedLoss && !n.o.Release.fusesQKV() {
		return f.Return(n.titanLossInParts(f, logits, labels, flat))
	}
	if n.tensorRanks() > 1 && n.o.Loss != GatheredLoss {
		return f.Return(n.lossAcross(flat(logits), labels))
	}
	return f.Return(m.CrossEntropy(flat(logits), m.Reshape(labels, -1)))
}

// titanLossInParts is chunked_cross_entropy_loss: logits of a part are widened for
// their own loss alone (commit e23bb707d).
func (n *Net) titanLossInParts(f *torch.Frame, logits, labels torch.Tensor, flat func(torch.Tensor) torch.Tensor) torch.Tensor {
	m := n.m
	lengths := inParts(logits.Size(1), lossChunks)
	parts := m.Split(logits, 1, lengths...)
	for i := range parts {
		parts[i] = f.Let(parts[i])
	}
	total, at := torch.Tensor{}, int64(0)
	for i, part := range parts {
		each := m.CrossEntropy(flat(part), m.Reshape(m.Slice(labels, 1, at, at+lengths[i]), -1))
		at += lengths[i]
		if i == 0 {
			total = f.Let(each)
			continue
		}
		f.Set(&total, m.Binary(torch.Add, total, each))
	}
	return m.Unary(torch.DivScalar, total)
}

// titanLogits is Transformer.
func (n *Net) titanLogits(b Batch) torch.Tensor {
	return n.titanPiece(Piece{To: len(n.stacks[0].layers), First: true, Last: true}, b.IDs)
}

// titanPiece is the part of Transformer that a stage of a pipeline has: tokens or hidden
// states go in, and hidden states or logits come out (pipeline_llama.py).
func (n *Net) titanPiece(p Piece, in torch.Tensor) torch.Tensor {
	m, s := n.m, n.stacks[0]
	f := m.Module("", &in)
	batch, length := in.Size(0), in.Size(1)
	h := torch.Tensor{}
	if p.First {
		h = f.Let(n.embeddedAcross(in))
	} else {
		h = f.Let(in)
	}
	if !n.o.Release.unfolds() {
		f.Set(&h, m.Reshape(h, batch*length, h.Size(-1)))
	}
	for i := p.From; i < p.To; i++ {
		f.Set(&h, n.titanThrough(&s.layers[i], h, batch))
	}
	if !p.Last {
		return f.Return(h)
	}
	f.Set(&h, n.titanLastNorm(n.outside.one(model.RoleFinalNorm), h))
	if !n.o.Release.unfolds() {
		f.Set(&h, m.Reshape(h, batch, length, h.Size(-1)))
	}
	out := n.allLogits(m.AsLogits(n.linear(n.outside.module("output", model.RoleHead, model.RoleHeadBias), n.allPositions(h))))
	if !n.o.Release.widensInLoss() {
		out = m.AsLogits(m.To(out, dtype.F32))
	}
	return f.Return(f.Let(out))
}

// titanThrough runs a layer within what fully_shard and a checkpoint put around it,
// the checkpoint inside.
func (n *Net) titanThrough(l *layer, x torch.Tensor, batch int64) torch.Tensor {
	n.before(l, x)
	run := func(x torch.Tensor) torch.Tensor { return n.titanBlock(l, x, batch) }
	var out torch.Tensor
	if n.o.Compiles && n.tensorRanks() > 1 {
		out = n.acrossBlock(l, x, batch)
	} else if n.o.Compiles {
		out = n.compiledBlock(l, x, batch)
	} else if n.o.Chooses {
		out = n.m.CheckpointKeeping(everySecondProduct, func(args []torch.Tensor) torch.Tensor { return run(args[0]) }, x)
	} else {
		out = n.checkpointedEvery(l, x, run)
	}
	n.after(l, out)
	return out
}

// checkpointedEvery computes a layer again in backward where it is one of every so
// many, as torchtitan counts: of every second the second, the fourth and so on.
func (n *Net) checkpointedEvery(l *layer, x torch.Tensor, run func(torch.Tensor) torch.Tensor) torch.Tensor {
	if !n.titanRecomputes(l) {
		return run(x)
	}
	return n.checkpointed(x, run)
}

func (n *Net) titanRecomputes(l *layer) bool {
	return n.o.Checkpointing && (l.Index+1)%max(1, n.o.Segment) == 0
}

// titanBlock is TransformerBlock.
func (n *Net) titanBlock(l *layer, x torch.Tensor, batch int64) torch.Tensor {
	m := n.m
	f := m.Module("layers", &x)
	h := f.Let(m.Binary(torch.Add, x, n.titanAttention(l, n.titanNorm(l.at(model.RoleNorm, 0).weight, x), batch)))
	out := f.Let(m.Binary(torch.Add, h, n.titanNetwork(l, n.titanNorm(l.at(model.RoleNorm, 1).weight, h))))
	return f.Return(out)
}

// titanNorm is RMSNorm: in 32 bits, and multiplied by its weight in the format of
// the stream.
func (n *Net) titanNorm(w, x torch.Tensor) torch.Tensor {
	m, was := n.m, x.Dtype()
	f := m.Module("norm", &x)
	if n.o.Release.normsByTorch() {
		return f.Return(m.RMSNorm(x, w))
	}
	wide := m.To(x, dtype.F32)
	g := m.Function(&wide)
	r := m.Unary(torch.Rsqrt, m.Unary(torch.AddScalar, m.Mean(m.Unary(torch.Square, wide), true, -1)))
	normed := g.Return(m.Binary(torch.Mul, wide, r))
	out := f.Let(m.To(normed, was))
	return f.Return(m.Binary(torch.Mul, out, w))
}

// titanNetwork is FeedForward.
func (n *Net) titanNetwork(l *layer, x torch.Tensor) torch.Tensor {
	m, d := n.m, l.FeedForward.(model.Dense)
	f := m.Module("feed_forward", &x)
	all := f.Let(n.allPositions(x))
	gate := n.activation(d.Activation, n.linear(l.linear("w1", model.RoleGate, model.RoleGateBias, 0), all))
	up := n.linear(l.linear("w3", model.RoleUp, model.RoleUpBias, 0), all)
	return f.Return(n.ownPositions(n.linear(l.linear("w2", model.RoleDown, model.RoleDownBias, 0), m.Binary(torch.Mul, gate, up))))
}

// titanAttention is Attention.
func (n *Net) titanAttention(l *layer, x torch.Tensor, batch int64) torch.Tensor {
	m, a := n.m, l.Mixers[0].(model.Attention)
	f := m.Module("attention", &x)
	all := f.Let(n.allPositions(x))
	projected := func(name string, weight, bias model.Role) torch.Tensor {
		return f.Let(n.linear(l.linear(name, weight, bias, 0), all))
	}
	q := projected("wq", model.RoleQuery, model.RoleQueryBias)
	k := projected("wk", model.RoleKey, model.RoleKeyBias)
	v := projected("wv", model.RoleValue, model.RoleValueBias)
	for _, t := range []*torch.Tensor{&q, &k, &v} {
		f.Set(t, m.Reshape(*t, batch, -1, t.Size(-1)/int64(a.KeyDim), int64(a.KeyDim)))
	}
	turnedQ, turnedK := n.turnedComplex(q, k)
	f.Set(&q, turnedQ)
	f.Set(&k, turnedK)
	groups := int64(a.QueryHeads / a.KVHeads)
	keys, values := f.Let(k), f.Let(v)
	n.torchtuneRepeated(f, &keys, &values, groups, true)
	f.Set(&q, n.heads(q))
	f.Set(&k, n.heads(keys))
	f.Set(&v, n.heads(values))
	how := torch.Attention{Causal: true}
	how.Kernel = n.kernel(how, q, k, v, torch.Tensor{})
	out := f.Let(m.ScaledDotProduct(how, q, k, v, torch.Tensor{}))
	f.Set(&out, m.Contiguous(m.Transpose(out, 1, 2)))
	if n.o.Release.unfolds() {
		f.Set(&out, m.Reshape(out, batch, out.Size(1), -1))
	} else {
		f.Set(&out, m.Reshape(out, batch*out.Size(1), -1))
	}
	return f.Return(n.ownPositions(n.linear(l.linear("wo", model.RoleAttentionOutput, model.RoleAttentionOutputBias, 0), out)))
}

// turnedComplex is apply_rotary_emb: neighbouring elements are a complex number of 64
// bits, and turned by another.
func (n *Net) turnedComplex(q, k torch.Tensor) (turnedQ, turnedK torch.Tensor) {
	m := n.m
	f := m.Function(&q, &k)
	pairs := func(x torch.Tensor) torch.Tensor {
		return f.Let(m.Reshape(m.To(x, dtype.F32), x.Size(0), x.Size(1), x.Size(2), -1, 2))
	}
	flat := func(x torch.Tensor) torch.Tensor {
		return f.Let(m.Reshape(n.timesTable(x), x.Size(0), x.Size(1), x.Size(2), -1))
	}
	wideQ, wideK := pairs(q), pairs(k)
	outQ, outK := flat(wideQ), flat(wideK)
	return f.Return2(m.To(outQ, q.Dtype()), m.To(outK, k.Dtype()))
}

// timesTable multiplies complex numbers by those of the table, which are made their
// conjugates in backward.
func (n *Net) timesTable(x torch.Tensor) torch.Tensor {
	length, dim, shape := x.Size(1), x.Size(3), slices.Clone(x.Shape())
	return n.m.Apply1(torch.Function{Name: "mul",
		Forward: func(c *torch.Call) []torch.Tensor { return []torch.Tensor{c.Empty(dtype.F32, shape...)} },
		Backward: func(g *torch.Gradients) {
			turn := g.Empty(dtype.F32, length, dim, 2)
			g.Give(0, g.Empty(dtype.F32, shape...))
			g.Free(turn)
		},
	}, x)
}

// tableRows is the positions of the rotary table: twice the length of the sequences
// that are trained on, later that length (commit 9dec370 has the latter).
func (r Release) tableRows(length int64) int64 {
	if r.unfolds() {
		return length
	}
	return 2 * length
}

// titanLacks is what of a model torchtitan builds of other modules than these.
func (n *Net) titanLacks() string {
	r := n.o.Release
	if r == (Release{}) || r.since(0, 1, 20250605) && !r.fusesQKV() || r.foldsBatch() {
		return "torchtitan's modules have a program for commits of 2024, of 2025 to June, and of 2026 from 06-24 to 08-17 alone: say the day, as torchtitan@0.1.0.dev20240612"
	}
	if why := n.titanPartsLack(); r.fusesQKV() && why != "" {
		return why
	}
	if n.model.Type != "llama" {
		return "torchtitan's modules have a program for Llama, not for " + n.model.Type
	}
	if n.tensorRanks() > 1 && !r.since(0, 1, 20240610) {
		return "the plan of torchtitan's tensor parallelism is described for commits since June 2024"
	}
	if n.o.Attention == Eager {
		return "torchtitan has no eager attention"
	}
	if n.o.Loss == ChunkedLoss && !r.fusesQKV() && !(r.since(0, 1, 20250324) && !r.since(0, 1, 20250402)) {
		return "torchtitan has a loss in parts from 2025-03-24 to 2025-04-01 alone"
	}
	for _, l := range n.stacks[0].layers {
		if _, dense := l.FeedForward.(model.Dense); !dense || l.has(model.RoleQKV) || l.has(model.RoleGateUp) {
			return "torchtitan has projections of their own for query, key, value, gate and up, and this model does not"
		}
		if l.at(model.RoleGate, 0).packed != nil {
			return "torchtitan trains no weights that are packed in 4 bits"
		}
		if !n.o.Compiles {
			continue
		}
		if why := n.compileLacks(&l); why != "" {
			return why
		}
	}
	return ""
}
