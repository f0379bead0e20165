package modules

import (
	"slices"

	"floodmark/dtype"
	"floodmark/internal/torch"
	"floodmark/model"
)

// The program of litgpt is that of 0.3 and 0.4: GPT of litgpt/lora.py, and the loop of
// litgpt/finetune/lora.py and full.py
// (https://github.com/Lightning-AI/litgpt/tree/v0.4.0).

// padsInPlace: zeros around an adapter's part are written into, and a layer keeps
// where; before they were copied, and the places made anew each time (commit
// f84b6109).
func (r Release) padsInPlace() bool { return r.since(0, 3, 20240506) }

// widensNorm: RMSNorm computes in 32 bits (commit 6178c7cc).
func (r Release) widensNorm() bool { return r.since(0, 1, 20231024) }

// keepsPackedInputs: bitsandbytes is 0.42, whose products keep their inputs for as
// long as the graph lives (commit d2ed13c3 asks for 0.44).
func (r Release) keepsPackedInputs() bool { return !r.since(0, 5, 20241228) }

// headChunk is the positions whose logits and loss are computed at once.
const headChunk = 128

// joinsQKV is the model as litgpt holds it: query, key and value of a layer are
// one linear layer. The tensors keep their places; that of the query stands for
// all three.
func joinsQKV(source *model.Model) *model.Model {
	joined := *source
	joined.Tensors = slices.Clone(source.Tensors)
	rows := map[[2]int32]int64{}
	for _, t := range source.Tensors {
		if isQKV(t.Role) && len(t.Shape) == 2 {
			rows[[2]int32{t.Stack, t.Layer}] += t.Shape[0]
		}
	}
	for i, t := range joined.Tensors {
		if t.Role == model.RoleQuery && len(t.Shape) == 2 {
			joined.Tensors[i].Role = model.RoleQKV
			joined.Tensors[i].Shape = []int64{rows[[2]int32{t.Stack, t.Layer}], t.Shape[1]}
		}
	}
	return &joined
}

func isQKV(r model.Role) bool {
	return r == model.RoleQuery || r == model.RoleKey || r == model.RoleValue
}

// within reports a tensor that is a part of another's parameter.
func (n *Net) within(t model.Tensor) bool {
	return n.o.Software == LitGPT && (t.Role == model.RoleKey || t.Role == model.RoleValue)
}

// packedInPlace is how Fabric packs a linear layer, which is made on the card: in
// the model's format, copied to 16 bits of the other kind, into which it is
// unpacked ever after, and packed. What it returns ends what was packed
// (BitsandbytesPrecision,
// https://github.com/Lightning-AI/pytorch-lightning/blob/2.2.0/src/lightning/fabric/plugins/precision/bitsandbytes.py).
func (n *Net) packedInPlace(p *torch.Packed, made dtype.Format) func() {
	m := n.m
	p.Format, p.KeepsInput = dtype.F16, n.o.Release.keepsPackedInputs()
	whole := m.Keep(m.Empty("empty", made, p.Shape...))
	half := m.Keep(m.To(whole, p.Format))
	n.inPlace = append(n.inPlace, p)
	return func() { m.Drop(half, whole) }
}

// packedAgain is how the checkpoint goes into packed weights: each matrix comes in
// the format that is unpacked, and is packed beside the words that it replaces. The
// new ones are taken for the old here.
func (n *Net) packedAgain() {
	m := n.m
	for _, p := range n.inPlace {
		half := m.Keep(m.Empty("to", p.Format, p.Shape...))
		elements := half.Elements()
		made := append(n.packedScales(elements, p.Nested), m.Keep(m.Empty("zeros", dtype.U8, (elements+1)/2, 1)))
		m.Drop(half)
		m.Drop(made...)
	}
}

// qkvAdapter is LoRAQKVLinear's: one pair of matrices for what of query, key and
// value has an adapter, [parts·rank, in] and [rows, rank].
func (n *Net) qkvAdapter(t model.Tensor) *lowRank {
	var of Adapter
	var rows []int64
	for _, other := range n.model.Tensors {
		if other.Layer != t.Layer || other.Stack != t.Stack || !isQKV(other.Role) && other.Name != t.Name {
			continue
		}
		if a, ok := n.o.Adapter(other); ok {
			of, rows = a, append(rows, n.partRows(other, t))
		}
	}
	if len(rows) == 0 {
		return nil
	}
	r := &lowRank{Adapter: of, in: t.Shape[1], rows: rows}
	total := int64(0)
	for _, part := range rows {
		total += part
	}
	r.down = n.m.Adapter(of.Format, of.Rank*int64(len(rows)), t.Shape[1])
	r.up = n.m.Adapter(of.Format, total, of.Rank)
	r.padded = total < t.Shape[0]
	n.parameters = append(n.parameters, Parameter{Tensor: r.down, Trained: true}, Parameter{Tensor: r.up, Trained: true})
	return r
}

// partRows is the rows of a part of the joined projection; what the joined tensor
// has beside keys and values is the query's.
func (n *Net) partRows(part, joined model.Tensor) int64 {
	if part.Name != joined.Name {
		return part.Shape[0]
	}
	rows := joined.Shape[0]
	for _, other := range n.model.Tensors {
		if other.Layer == joined.Layer && other.Stack == joined.Stack && (other.Role == model.RoleKey || other.Role == model.RoleValue) {
			rows -= other.Shape[0]
		}
	}
	return rows
}

// litgptLoss is a step of the script up to its loss. Its loop has names for the
// logits, which live until the next ones are there.
func (n *Net) litgptLoss(b Batch) torch.Tensor {
	m := n.m
	logits := n.converted(n.litgptLogits(b, headChunk))
	m.Drop(n.loop.list...)
	last := len(logits) - 1
	whole := logits[last]
	logits[last] = m.Keep(m.Slice(whole, 1, 0, whole.Size(1)-1))
	m.Drop(whole)
	n.loop.list = logits
	n.beforeLoss()
	return n.litgptLosses(logits, m.Slice(b.Labels, 1, 1, b.Labels.Size(1)))
}

// litgptValidation is a batch of validate: chunked_cross_entropy in one piece, which
// copies what it cuts off of several sequences. The logits live until the next are
// there.
func (n *Net) litgptValidation(b Batch) torch.Tensor {
	m := n.m
	n.bind(&n.loop.logits, n.converted(n.litgptLogits(b, b.IDs.Size(1)))[0])
	length := b.Labels.Size(1)
	f := m.Function()
	logits := f.Let(m.Slice(n.loop.logits, 1, 0, length-1))
	f.Set(&logits, m.Reshape(logits, -1, logits.Size(-1)))
	return f.Return(m.CrossEntropy(logits, m.Reshape(m.Slice(b.Labels, 1, 1, length), -1)))
}

// converted is what Fabric's wrapper makes of what the model returns: copies in
// PyTorch's default format, all of them before the first of the model's own goes
// (convert_output of HalfPrecision,
// https://github.com/Lightning-AI/pytorch-lightning/blob/2.2.0/src/lightning/fabric/wrappers.py).
func (n *Net) converted(logits []torch.Tensor) []torch.Tensor {
	m := n.m
	f := m.Module("_FabricModule")
	made := make([]torch.Tensor, len(logits))
	for i := range logits {
		logits[i] = m.Keep(logits[i])
	}
	for i := range logits {
		made[i] = m.Keep(m.AsLogits(m.To(logits[i], dtype.F32)))
	}
	m.Drop(logits...)
	f.End()
	return made
}

// litgptLosses is chunked_cross_entropy: every position's loss, joined and added
// up.
func (n *Net) litgptLosses(logits []torch.Tensor, labels torch.Tensor) torch.Tensor {
	m := n.m
	f := m.Function(&labels)
	flat := make([]torch.Tensor, len(logits))
	for i, part := range logits {
		flat[i] = f.Let(m.Reshape(part, -1, part.Size(-1)))
	}
	targets := make([]torch.Tensor, len(logits))
	at := int64(0)
	for i, part := range logits {
		next := at + part.Size(1)
		targets[i] = f.Let(m.Reshape(m.Slice(labels, 1, at, next), -1))
		at = next
	}
	losses := make([]torch.Tensor, len(logits))
	for i := range logits {
		losses[i] = f.Let(m.CrossEntropyEach(flat[i], targets[i]))
	}
	m.Drop(m.Sum(m.Unary(torch.EqScalar, labels), false))
	return f.Return(m.Unary(torch.DivScalar, m.Sum(m.Cat(0, losses...), false)))
}

// litgptLogits is GPT: the logits of each part of the sequence, of so many positions.
func (n *Net) litgptLogits(b Batch, chunk int64) []torch.Tensor {
	m, s := n.m, n.stacks[0]
	f := m.Module("", &b.IDs)
	length := b.IDs.Size(1)
	n.Cut(length)
	cos, sin := f.Let(m.Slice(n.turns, 0, 0, length)), f.Let(m.Slice(n.frequencies, 0, 0, length))
	x := f.Let(n.embedded(b.IDs))
	if s.Manner.ScaledEmbedding {
		f.Set(&x, m.Unary(torch.MulScalar, x))
	}
	for i := range s.layers {
		f.Set(&x, n.checkpointed(x, func(x torch.Tensor) torch.Tensor { return n.litgptBlock(&s.layers[i], x, cos, sin) }, cos, sin))
	}
	f.Set(&x, n.litgptNorm(s.layers[0].Norms[0], n.outside.one(model.RoleFinalNorm), n.outside.one(model.RoleNormBias), x))
	head := n.outside.module("lm_head", model.RoleHead, model.RoleHeadBias)
	var lengths []int64
	for at := int64(0); at < length; at += chunk {
		lengths = append(lengths, min(chunk, length-at))
	}
	var logits []torch.Tensor
	for _, part := range m.Split(x, 1, lengths...) {
		logits = append(logits, m.AsLogits(n.litgptLinear(head, part)))
	}
	f.End()
	return logits
}

// Cut makes the tables of rotary positions of software that cuts them to the
// longest sequence when it knows the data: cosines and sines in 32 bits, or complex
// numbers.
func (n *Net) Cut(length int64) {
	if n.turns.Defined() || n.rotary == 0 {
		return
	}
	if n.o.Software == TorchTitan {
		n.turns = n.m.Buffer(dtype.C64, n.o.Release.tableRows(length), n.rotary/2)
		for i := 1; i < len(n.stacks[0].layers) && n.o.Release.fusesQKV(); i++ { // each layer has its own
			n.m.Buffer(dtype.C64, length, n.rotary/2)
		}
	}
	if n.qwen() {
		n.qwenTables(length)
	}
	if n.o.Software != LitGPT {
		return
	}
	n.turns, n.frequencies = n.m.Buffer(dtype.F32, length, n.rotary), n.m.Buffer(dtype.F32, length, n.rotary)
	n.promptKeys()
}

// litgptBlock is Block.
func (n *Net) litgptBlock(l *layer, x, cos, sin torch.Tensor) torch.Tensor {
	m := n.m
	f := m.Module("h", &x)
	norm := func(place int, x torch.Tensor) torch.Tensor {
		return n.litgptNorm(l.Norms[place], l.at(model.RoleNorm, place).weight, l.at(model.RoleNormBias, place).weight, x)
	}
	normed := f.Let(norm(0, x))
	attended := f.Let(n.litgptAttention(l, normed, cos, sin))
	if l.Residual == model.Parallel {
		if len(l.Norms) == 2 {
			f.Set(&normed, norm(1, x))
		}
		f.Set(&x, m.Binary(torch.Add, m.Binary(torch.Add, n.litgptNetwork(l, normed), attended), x))
		return f.Return(x)
	}
	f.Set(&x, m.Binary(torch.Add, attended, x))
	f.Set(&x, m.Binary(torch.Add, n.litgptNetwork(l, norm(1, x)), x))
	return f.Return(x)
}

// litgptNorm is RMSNorm, or torch's LayerNorm.
func (n *Net) litgptNorm(of model.Norm, w, bias, x torch.Tensor) torch.Tensor {
	m, was := n.m, x.Dtype()
	f := m.Module("norm", &x)
	if of.Kind == model.LayerNorm {
		return f.Return(m.LayerNorm(x, w, bias))
	}
	if n.o.Release.widensNorm() {
		f.Set(&x, m.To(x, dtype.F32))
	}
	mean := f.Let(m.Mean(m.Binary(torch.Mul, x, x), true, -1))
	normed := f.Let(m.Binary(torch.Mul, x, m.Unary(torch.Rsqrt, m.Unary(torch.AddScalar, mean))))
	if n.o.Release.widensNorm() {
		f.Set(&normed, m.To(normed, was))
	}
	if of.Offset {
		return f.Return(m.Binary(torch.Mul, normed, m.Unary(torch.AddScalar, w)))
	}
	return f.Return(m.Binary(torch.Mul, normed, w))
}

// litgptAttention is CausalSelfAttention.
func (n *Net) litgptAttention(l *layer, x, cos, sin torch.Tensor) torch.Tensor {
	m, a := n.m, l.Mixers[0].(model.Attention)
	f := m.Module("attn", &x)
	batch, length, dim := x.Size(0), x.Size(1), int64(a.KeyDim)
	groups, each := int64(a.KVHeads), int64(a.QueryHeads/a.KVHeads)
	qkv := f.Let(n.litgptLinear(l.linear("attn", model.RoleQKV, model.RoleQKVBias, 0), x))
	f.Set(&qkv, m.Reshape(qkv, batch, length, groups, each+2, dim))
	f.Set(&qkv, m.Permute(qkv, 0, 2, 3, 1, 4))
	parts := m.Split(qkv, 2, each, 1, 1)
	q, k, v := f.Let(parts[0]), f.Let(parts[1]), f.Let(parts[2])
	if each > 1 {
		f.Set(&k, m.Expand(k, batch, groups, each, length, dim))
		f.Set(&v, m.Expand(v, batch, groups, each, length, dim))
	}
	for _, x := range []*torch.Tensor{&q, &k, &v} {
		f.Set(x, m.Reshape(*x, batch, -1, length, dim))
	}
	turning := int64(a.RotaryDim)
	qTurned := f.Let(n.litgptTurned(m.Slice(q, -1, 0, turning), cos, sin))
	kTurned := f.Let(n.litgptTurned(m.Slice(k, -1, 0, turning), cos, sin))
	f.Set(&q, m.Cat(-1, qTurned, m.Slice(q, -1, turning, dim)))
	f.Set(&k, m.Cat(-1, kTurned, m.Slice(k, -1, turning, dim)))
	how := torch.Attention{Causal: true}
	how.Kernel = n.kernel(how, q, k, v, torch.Tensor{})
	y := f.Let(m.Transpose(m.ScaledDotProduct(how, q, k, v, torch.Tensor{}), 1, 2))
	if joined := l.linear("attn", model.RoleQKV, model.RoleQKVBias, 0); joined.prompt != nil {
		f.Set(&y, n.prompting(joined.prompt, q, y))
	}
	f.Set(&y, m.Reshape(y, batch, length, -1))
	return f.Return(n.litgptLinear(l.linear("proj", model.RoleAttentionOutput, model.RoleAttentionOutputBias, 0), y))
}

// litgptTurned is apply_rope.
func (n *Net) litgptTurned(x, cos, sin torch.Tensor) torch.Tensor {
	m, was, dim := n.m, x.Dtype(), x.Size(-1)
	f := m.Function(&x)
	first, second := f.Let(m.Slice(x, -1, 0, dim/2)), f.Let(m.Slice(x, -1, dim/2, dim))
	rotated := f.Let(m.Cat(-1, m.Unary(torch.Neg, second), first))
	plain := m.Binary(torch.Mul, x, cos)
	turned := f.Let(m.Binary(torch.Add, plain, m.Binary(torch.Mul, rotated, sin)))
	return f.Return(m.To(turned, was))
}

// litgptNetwork is LLaMAMLP, GemmaMLP or GptNeoxMLP.
func (n *Net) litgptNetwork(l *layer, x torch.Tensor) torch.Tensor {
	m, d := n.m, l.FeedForward.(model.Dense)
	f := m.Module("mlp", &x)
	down := l.linear("proj", model.RoleDown, model.RoleDownBias, 0)
	up := l.linear("fc_2", model.RoleUp, model.RoleUpBias, 0)
	if !d.Gated {
		f.Set(&x, n.litgptLinear(up, x))
		f.Set(&x, n.activation(d.Activation, x))
		return f.Return(n.litgptLinear(down, x))
	}
	one := f.Let(n.litgptLinear(l.linear("fc_1", model.RoleGate, model.RoleGateBias, 0), x))
	two := f.Let(n.litgptLinear(up, x))
	f.Set(&x, m.Binary(torch.Mul, n.activation(d.Activation, one), two))
	return f.Return(n.litgptLinear(down, x))
}

// litgptLinear is LoRALinear, or LoRAQKVLinear, which every linear layer is.
func (n *Net) litgptLinear(l linear, x torch.Tensor) torch.Tensor {
	m, a := n.m, l.adapter
	f := m.Module(l.name, &x)
	l.name = "linear"
	made := f.Let(n.bare(l, x))
	if a == nil {
		return f.Return(made)
	}
	in := x
	if a.Dropout && n.o.Training {
		in = m.Dropout(x)
	}
	if a.rows == nil {
		low := m.Matmul(in, m.Transpose(a.down, 0, 1))
		delta := f.Let(m.Unary(torch.MulScalar, m.Matmul(low, m.Transpose(a.up, 0, 1))))
		return f.Return(m.Binary(torch.Add, made, delta))
	}
	low := f.Let(m.Linear(in, a.down, torch.Tensor{}))
	high := f.Let(m.Transpose(n.litgptConvolved(a, m.Transpose(low, 1, 2)), 1, 2))
	delta := f.Let(m.Unary(torch.MulScalar, n.litgptPadded(a, high, made.Size(-1))))
	return f.Return(m.Binary(torch.Add, made, delta))
}

// litgptConvolved is the second matrix as a convolution in groups, or one of each
// part where keys are fewer than queries.
func (n *Net) litgptConvolved(a *lowRank, x torch.Tensor) torch.Tensor {
	m := n.m
	f := m.Function(&x)
	weight := f.Let(m.Unsqueeze(a.up, 2))
	one := []int64{1}
	zero := []int64{0}
	same := !slices.ContainsFunc(a.rows, func(rows int64) bool { return rows != a.rows[0] })
	if same {
		return f.Return(m.Convolution(x, weight, torch.Tensor{}, one, zero, int64(len(a.rows))))
	}
	inner := make([]int64, len(a.rows))
	for i := range inner {
		inner[i] = a.Rank
	}
	inputs, weights := m.Split(x, 1, inner...), m.Split(weight, 0, a.rows...)
	made := make([]torch.Tensor, len(a.rows))
	for i := range made {
		inputs[i], weights[i] = f.Let(inputs[i]), f.Let(weights[i])
	}
	for i := range made {
		made[i] = m.Keep(m.Convolution(inputs[i], weights[i], torch.Tensor{}, one, zero, 1))
	}
	joined := m.Cat(1, made...)
	for i := len(made) - 1; i >= 0; i-- {
		m.Drop(made[i])
	}
	return f.Return(joined)
}

// litgptPadded is zero_pad: zeros where a part has no adapter.
func (n *Net) litgptPadded(a *lowRank, x torch.Tensor, width int64) torch.Tensor {
	m := n.m
	if !a.padded {
		return x
	}
	f := m.Function(&x)
	batch, length, rows := x.Size(0), x.Size(1), x.Size(2)
	if n.o.Release.padsInPlace() {
		made := f.Let(m.Empty("new_zeros", x.Dtype(), batch, length, width))
		return f.Return(m.IndexCopyInPlace(made, n.litgptPlaces(a, rows), x))
	}
	f.Set(&x, m.Transpose(x, 0, 1))
	made := f.Let(m.Empty("new_zeros", x.Dtype(), length, batch, width))
	f.Set(&made, m.Reshape(made, -1, width))
	places := m.Empty("tensor", dtype.I64, rows)
	f.Set(&made, m.IndexCopy(made, places, m.Reshape(x, -1, rows)))
	return f.Return(m.Transpose(m.Reshape(made, length, batch, width), 0, 1))
}

// litgptPlaces is the rows that an adapter fills, which a layer keeps once they
// were asked for.
func (n *Net) litgptPlaces(a *lowRank, rows int64) torch.Tensor {
	if !a.places.Defined() {
		a.places = n.m.Keep(n.m.Empty("tensor", dtype.I64, rows))
	}
	return a.places
}

// litgptLacks is what of a model litgpt has no program for here.
func (n *Net) litgptLacks() string {
	if n.o.Attention == Eager {
		return "litgpt has no eager attention"
	}
	for _, l := range n.stacks[0].layers {
		if _, dense := l.FeedForward.(model.Dense); !dense || !l.has(model.RoleQKV) || l.has(model.RoleGateUp) || l.Residual != model.PreNorm && l.Residual != model.Parallel {
			return "litgpt's modules of this kind have no program here"
		}
	}
	return ""
}
