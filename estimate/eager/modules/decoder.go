package modules

import (
	"slices"

	"floodmark/dtype"
	"floodmark/internal/torch"
	"floodmark/model"
)

// Batch is what a forward pass is given.
type Batch struct {
	IDs, Labels, Mask torch.Tensor // labels and mask may be None
	Pixels            torch.Tensor
	DecoderIDs        torch.Tensor
	Positions         torch.Tensor // of the tokens in a packed sequence
	Ignored           torch.Tensor // a label of each sequence that counts for nothing, which a loop keeps
}

// Loss runs a forward pass with its loss, of whose outputs nothing else lives
// on, as transformers' Trainer does it, or as the loop of other software does.
func (n *Net) Loss(b Batch) torch.Tensor {
	switch n.o.Software {
	case Torchtune:
		return n.torchtuneLoss(b)
	case LitGPT:
		return n.litgptLoss(b)
	case TorchTitan:
		return n.titanLoss(b)
	case Timm:
		return n.timmLoss(b)
	}
	if n.o.Objective != nil {
		return n.preferenceLoss(b)
	}
	logits, loss := n.run(b)
	n.m.Drop(logits)
	n.DropCache()
	return loss
}

// Outputs is what a forward pass returned, for a loop that has a name for it.
type Outputs struct {
	Loss, logits torch.Tensor
	cache        []torch.Tensor
}

// Outputs runs a forward pass with its loss, all of whose outputs live on until
// they are released.
func (n *Net) Outputs(b Batch) Outputs {
	logits, loss := n.run(b)
	o := Outputs{Loss: n.m.Keep(loss), logits: n.m.Keep(logits), cache: n.cache}
	n.cache = nil
	return o
}

// Release ends outputs.
func (n *Net) Release(o Outputs) {
	n.m.Drop(o.Loss, o.logits)
	n.m.Drop(o.cache...)
}

// Logits runs a forward pass without a loss.
func (n *Net) Logits(b Batch) torch.Tensor {
	b.Labels = torch.Tensor{}
	switch n.o.Software {
	case Torchtune:
		return n.torchtuneLogits(b)[0]
	case TorchTitan:
		return n.titanLogits(b)
	case LitGPT: // validate cuts nothing
		return n.converted(n.litgptLogits(b, b.IDs.Size(1)))[0]
	}
	if n.o.Software == Timm {
		return n.timmLogits(b)
	}
	logits, _ := n.run(b)
	return logits
}

// run is the forward of the class with the head.
func (n *Net) run(b Batch) (logits, loss torch.Tensor) {
	switch {
	case n.relative():
		return n.seq2seq(b)
	case n.vision():
		return n.classifier(b)
	case n.encodesText():
		return n.encoder(b)
	case n.qwen():
		return n.qwenLM(b)
	case n.crosses():
		return n.translated(b)
	}
	return n.causalLM(b)
}

// causalLM is LlamaForCausalLM and its like.
func (n *Net) causalLM(b Batch) (logits, loss torch.Tensor) {
	m := n.m
	n.begins()
	f := m.Module("", &b.IDs)
	s := n.language()
	last := f.Let(n.decoder(s, b))
	x := f.Let(n.kept(last))
	logits = n.head(f, s, x)
	if n.olderThan(wideLossAlone) && !n.olderThan(wideLogits) {
		f.Set(&logits, m.AsLogits(m.To(logits, dtype.F32)))
	}
	if b.Labels.Defined() {
		n.beforeLoss()
		loss = f.Let(n.causalLoss(logits, b.Labels))
	}
	n.ends(logits)
	return f.Return2(logits, loss)
}

// begins tells that a forward pass begins.
func (n *Net) begins() { n.enters(Outside, torch.Tensor{}) }

// ends tells that a forward pass has ended, with what it made.
func (n *Net) ends(out torch.Tensor) { n.leaves(Outside, out) }

// head is the logits of positions, as a name of the frame.
func (n *Net) head(f *torch.Frame, s stack, x torch.Tensor) torch.Tensor {
	m := n.m
	logits := f.Let(n.linear(n.outside.module("lm_head", model.RoleHead, model.RoleHeadBias), x))
	if s.Manner.ScaledLogits {
		f.Set(&logits, m.Unary(torch.DivScalar, logits))
	}
	if s.Manner.LogitCap > 0 {
		f.Set(&logits, m.Unary(torch.DivScalar, logits))
		f.Set(&logits, m.Unary(torch.Tanh, logits))
		f.Set(&logits, m.Unary(torch.MulScalar, logits))
	}
	return m.AsLogits(logits)
}

// kept is the positions whose logits are computed. A slice of everything is the
// tensor itself.
func (n *Net) kept(x torch.Tensor) torch.Tensor {
	if n.o.Keep == 0 || n.o.Keep >= x.Size(1) {
		return x
	}
	return n.m.Slice(x, 1, x.Size(1)-n.o.Keep, x.Size(1))
}

// decoder is the stack: embedding, positions, masks, layers, the last norm.
func (n *Net) decoder(s stack, b Batch) torch.Tensor {
	m := n.m
	f := m.Module("model", &b.IDs)
	p := position{ids: f.Let(torch.Tensor{})} // an argument of the forward, so that it goes first
	embeds := f.Let(n.embedded(b.IDs))
	for _, t := range n.besides {
		f.Set(&embeds, n.tiedTo(embeds, t))
	}
	if s.Manner.ScaledEmbedding {
		f.Set(&embeds, m.Unary(torch.MulScalar, embeds))
	}
	n.positions(f, s, &p.ids, b.IDs)
	x := f.Let(embeds)
	if table := n.outside.one(model.RolePositionEmbedding); table.Defined() {
		f.Set(&x, n.positioned(f, table, embeds, &p.ids))
	}
	if s.attends() {
		p.full, p.window = n.masks(f, s, embeds, n.alongAxes(f, s, &p.ids, b.IDs), b.Mask)
	}
	if n.rotary > 0 && !n.olderThan(sharedRotary) {
		cos, sin := n.rotaryTables(p.ids, x.Dtype())
		p.sin, p.cos = f.Let(sin), f.Let(cos) // a tuple goes from its end
		if s.Manner.LocalRotary {
			cos, sin = n.rotaryTables(p.ids, x.Dtype())
			p.localSin, p.localCos = f.Let(sin), f.Let(cos)
		}
	}
	f.Set(&x, n.dropped(x, s.Manner.Dropout.Embedding))
	for layers := range slices.Chunk(s.layers, n.segment()) {
		if layers[0].idle(s) {
			continue
		}
		n.returns(x)
		f.Set(&x, n.through(layers, x, p))
	}
	if w := n.outside.one(model.RoleFinalNorm); w.Defined() {
		f.Set(&x, n.norm("norm", s.layers[0].Norms[0], w, n.outside.one(model.RoleNormBias), x))
	}
	n.returns(x)
	return f.Return(x)
}

// returns keeps a hidden state that the pass returns.
func (n *Net) returns(x torch.Tensor) {
	if n.hides {
		n.hidden = append(n.hidden, n.m.Keep(x))
	}
}

// positions numbers the tokens, where anything in the stack asks for it.
func (n *Net) positions(f *torch.Frame, s stack, ids *torch.Tensor, tokens torch.Tensor) {
	table := n.outside.one(model.RolePositionEmbedding)
	switch {
	case !s.attends():
	case table.Defined() && table.Size(0) > int64(n.model.MaxPosition):
		n.counted(f, ids, tokens.Size(0), tokens.Size(1))
	default:
		n.positionIDs(f, ids, tokens.Size(1))
	}
}

// alongAxes makes positions those along each of three axes, and is those that a
// mask is made of: none, or those of the text, which stand before the others.
func (n *Net) alongAxes(f *torch.Frame, s stack, ids *torch.Tensor, tokens torch.Tensor) torch.Tensor {
	m, batch, length := n.m, tokens.Size(0), tokens.Size(1)
	switch s.Manner.Axes {
	case model.SectionedAxes:
		f.Set(ids, m.Expand(m.Unsqueeze(*ids, 0), axes, batch, length))
		return torch.Tensor{}
	case model.InterleavedAxes:
		f.Set(ids, m.Expand(m.Unsqueeze(*ids, 0), axes+1, batch, length))
		text := f.Let(m.Select(*ids, 0))
		f.Set(ids, m.Slice(*ids, 0, 1, axes+1))
		return text
	}
	return *ids
}

// axes are time, height and width.
const axes = 3

// idle reports a layer that reads another stack alone, which is not given.
func (l *layer) idle(s stack) bool {
	if !s.Manner.Alone || len(l.Mixers) != 1 {
		return false
	}
	a, ok := l.Mixers[0].(model.Attention)
	return ok && a.Cross
}

// attends reports that a layer of the stack has attention.
func (s stack) attends() bool {
	for _, l := range s.layers {
		for _, mixer := range l.Mixers {
			switch mixer.(type) {
			case model.Attention, model.LatentAttention:
				return true
			}
		}
	}
	return false
}

// embedded is the token embeddings.
func (n *Net) embedded(ids torch.Tensor) torch.Tensor {
	m := n.m
	f := m.Module("embed_tokens", &ids)
	x := m.Embedding(n.outside.one(model.RoleTokenEmbedding), ids)
	if n.o.InputGrads && !x.RequiresGrad() {
		x = m.RequireGrad(x)
	}
	return f.Return(x)
}

// positioned adds learned positions. A table with rows before position 0 is
// read by positions that are counted over the mask of padding, of every sequence
// of the batch (OPTLearnedPositionalEmbedding).
func (n *Net) positioned(f *torch.Frame, table, x torch.Tensor, ids *torch.Tensor) torch.Tensor {
	m := n.m
	at := *ids
	if table.Size(0) > int64(n.model.MaxPosition) {
		at = m.Unary(torch.AddScalar, *ids)
	}
	return m.Binary(torch.Add, x, f.Let(m.Embedding(table, at)))
}

// counted is positions counted over a mask of ones.
func (n *Net) counted(f *torch.Frame, ids *torch.Tensor, batch, length int64) {
	m := n.m
	mask := f.Let(m.Empty("ones", dtype.F32, batch, length))
	f.Set(ids, m.Empty("cumsum", dtype.F32, batch, length))
	f.Set(ids, m.To(m.Unary(torch.SubScalar, m.Binary(torch.Mul, *ids, mask)), dtype.I64))
}

// causalLoss is ForCausalLMLoss: logits in 32 bits, labels shifted by one
// (https://github.com/huggingface/transformers/blob/v4.57.3/src/transformers/loss/loss_utils.py).
func (n *Net) causalLoss(logits, labels torch.Tensor) torch.Tensor {
	m := n.m
	f := m.Function(&logits, &labels)
	if !n.olderThan(wideLogits) {
		f.Set(&logits, m.AsLogits(m.To(logits, dtype.F32)))
	}
	if n.olderThan(paddedLabels) {
		length := labels.Size(1)
		kept := f.Let(m.Contiguous(m.Slice(logits, 1, 0, length-1)))
		next := f.Let(m.Contiguous(m.Slice(labels, 1, 1, length)))
		f.Set(&kept, m.Reshape(kept, -1, kept.Size(-1)))
		f.Set(&next, m.Reshape(next, -1))
		return f.Return(m.CrossEntropy(kept, next))
	}
	f.Set(&labels, m.Empty("pad", dtype.I64, labels.Size(0), labels.Size(1)+1))
	shifted := f.Let(m.Contiguous(m.Slice(labels, 1, 1, labels.Size(1))))
	f.Set(&logits, m.Reshape(logits, -1, logits.Size(-1)))
	f.Set(&shifted, m.Reshape(shifted, -1))
	return f.Return(m.CrossEntropy(logits, shifted))
}
