package modules

import (
	"slices"

	"floodmark/dtype"
	"floodmark/internal/torch"
	"floodmark/model"
)

// The uses of a text encoder's class that have a program.
const (
	useMasked    = "ForMaskedLM"
	useSequences = "ForSequenceClassification"
	useTokens    = "ForTokenClassification"
	useQuestions = "ForQuestionAnswering"
)

// encodesText is one stack that reads text both ways, of learned positions and of
// norms behind the sums: BERT and its like
// (https://github.com/huggingface/transformers/blob/v5.0.0/src/transformers/models/bert/modeling_bert.py,
// …/models/roberta/modeling_roberta.py, …/models/distilbert/modeling_distilbert.py).
func (n *Net) encodesText() bool {
	return len(n.stacks) == 1 && n.stacks[0].Kind == model.Encoder
}

// lacksEncoding is what of a text encoder has no program.
func (n *Net) lacksEncoding() string {
	embedding, positions := n.outside.one(model.RoleTokenEmbedding), n.outside.one(model.RolePositionEmbedding)
	switch {
	case n.outside.has(model.RoleOther), n.outside.has(model.RoleRelativeBias), !positions.Defined(), !embedding.Defined(),
		len(n.outside[model.RoleNorm]) == 0:
		return "an encoder of text with embeddings of this kind has no program here"
	case len(n.stacks[0].layers) == 0, !n.stacks[0].layers[0].normsBehind():
		return "an encoder of text whose layers are joined in this way has no program here"
	}
	if n.olderThan(sharedAttention) && (n.o.Attention != Eager || !n.manner().Text.SelfOutput) {
		return "of transformers 4 the encoders of text have a program for BERT's layers and eager attention alone"
	}
	switch use := n.manner().Use; use {
	case useMasked, useSequences, useTokens, useQuestions:
		return ""
	case "Model":
		if n.o.Training {
			return "a class without a head has no loss of its own, and the script's is not known here"
		}
		return ""
	default:
		return "the head of an encoder of text " + use + " has no program here"
	}
}

// normsBehind reports a layer whose sums are normalised, as BERT's are.
func (l *layer) normsBehind() bool {
	return l.Residual == model.PostNorm && len(l.Norms) == 2 && l.Norms[0].Kind == model.LayerNorm
}

// LabelShape is the shape of the labels of a batch.
func (n *Net) LabelShape(batch, length int64) []int64 {
	switch {
	case n.encodesText() && n.manner().Use == useSequences:
		return []int64{batch}
	case n.encodesText() && n.manner().Use == useQuestions:
		return []int64{2, batch} // where answers begin and end
	}
	return []int64{batch, length}
}

// encoder is the class with its head. Labels are one a sequence or one a token.
func (n *Net) encoder(b Batch) (logits, loss torch.Tensor) {
	m := n.m
	f := m.Module("", &b.IDs)
	x := f.Let(n.encoded(n.stacks[0], b))
	switch n.manner().Use {
	case useSequences:
		logits = f.Let(n.classified(x))
	case useTokens:
		x = f.Let(n.dropped(x, n.manner().Dropout.Head))
		logits = f.Let(n.linear(n.outside.classifier(0), x))
	case useMasked:
		logits = f.Let(n.unmasked(x))
	case useQuestions:
		return n.answered(f, x, b)
	default:
		return f.Return2(x, torch.Tensor{})
	}
	m.AsLogits(logits)
	if b.Labels.Defined() {
		if n.o.BeforeLoss != nil {
			n.o.BeforeLoss()
		}
		loss = f.Let(m.CrossEntropy(m.Reshape(logits, -1, logits.Size(-1)), m.Reshape(b.Labels, -1)))
	}
	return f.Return2(logits, loss)
}

// answered is a classifier of two labels, of which a position has how likely an
// answer begins there and ends there.
func (n *Net) answered(f *torch.Frame, x torch.Tensor, b Batch) (logits, loss torch.Tensor) {
	m := n.m
	if n.manner().Text.DropsAnswers {
		f.Set(&x, n.dropped(x, n.manner().Dropout.Head))
	}
	both := f.Let(n.linear(n.outside.classifier(0), x))
	ends := m.Split(both, -1, 1, 1)
	first, last := f.Let(ends[0]), f.Let(ends[1])
	f.Set(&first, m.Contiguous(m.Squeeze(first, -1)))
	f.Set(&last, m.Contiguous(m.Squeeze(last, -1)))
	m.AsLogits(first)
	m.AsLogits(last)
	if b.Labels.Defined() {
		if n.o.BeforeLoss != nil {
			n.o.BeforeLoss()
		}
		begins := f.Let(m.Unary(torch.Clamp, m.Select(b.Labels, 0)))
		behind := f.Let(m.Unary(torch.Clamp, m.Select(b.Labels, 0)))
		one := f.Let(m.CrossEntropy(first, begins))
		other := f.Let(m.CrossEntropy(last, behind))
		loss = f.Let(m.Unary(torch.DivScalar, m.Binary(torch.Add, one, other)))
	}
	return f.Return2(first, loss)
}

// encoded is the stack: embeddings and layers. A mask of padding in which nothing
// is padded is looked at and left out.
func (n *Net) encoded(s stack, b Batch) torch.Tensor {
	m := n.m
	f := m.Module("model", &b.IDs)
	var p position
	if n.olderThan(sharedAttention) {
		p.full = n.extendedMask(f, b)
	}
	x := f.Let(f.Let(n.summedEmbeddings(s, b.IDs))) // the embeddings keep a name of their own
	if b.Mask.Defined() && !n.olderThan(sharedAttention) {
		m.Drop(m.To(b.Mask, dtype.Bool))
	}
	for layers := range slices.Chunk(s.layers, n.segment()) {
		f.Set(&x, n.through(layers, x, p))
	}
	return f.Return(x)
}

// extendedMask is the mask of earlier releases, which add one to every score
// (get_extended_attention_mask of
// https://github.com/huggingface/transformers/blob/v4.27.4/src/transformers/modeling_utils.py).
func (n *Net) extendedMask(f *torch.Frame, b Batch) torch.Tensor {
	m, format := n.m, n.outside.one(model.RoleTokenEmbedding).Dtype()
	mask := b.Mask
	if !mask.Defined() {
		mask = f.Let(m.Empty("ones", dtype.F32, b.IDs.Shape()...))
	}
	kept := m.To(m.Unsqueeze(m.Unsqueeze(mask, 1), 2), format)
	return f.Let(m.Unary(torch.MulScalar, m.Unary(torch.RsubScalar, kept)))
}

// summedEmbeddings is BertEmbeddings: tokens, kinds of token and positions.
func (n *Net) summedEmbeddings(s stack, ids torch.Tensor) torch.Tensor {
	m := n.m
	f := m.Module("embeddings", &ids)
	at := f.Let(n.placesOf(s, ids))
	var kinds torch.Tensor
	table := n.outside.one(model.RoleTypeEmbedding)
	if table.Defined() {
		kinds = f.Let(m.Expand(f.Let(n.kindsOf(at, ids)), ids.Size(0), ids.Size(1)))
	}
	x := f.Let(m.Embedding(n.outside.one(model.RoleTokenEmbedding), ids))
	if table.Defined() {
		x = f.Let(m.Binary(torch.Add, x, f.Let(m.Embedding(table, kinds))))
		positions := f.Let(m.Embedding(n.outside.one(model.RolePositionEmbedding), at))
		if n.olderThan(sharedAttention) {
			f.Set(&x, m.InPlace(torch.Add, x, positions))
		} else {
			f.Set(&x, m.Binary(torch.Add, x, positions))
		}
	} else {
		x = f.Let(m.Binary(torch.Add, x, f.Let(m.Embedding(n.outside.one(model.RolePositionEmbedding), at))))
	}
	f.Set(&x, n.norm("LayerNorm", s.layers[0].Norms[0], n.outside.one(model.RoleNorm), n.outside.one(model.RoleNormBias), x))
	f.Set(&x, n.dropped(x, s.Manner.Dropout.Embedding))
	return f.Return(x)
}

// kindsOf is the kinds of tokens of which nobody told: a row of zeros.
func (n *Net) kindsOf(at, ids torch.Tensor) torch.Tensor {
	m := n.m
	if n.olderThan(sharedAttention) {
		return m.Slice(n.tokenKinds, 1, 0, min(ids.Size(1), n.tokenKinds.Size(1)))
	}
	return m.Gather(m.Expand(n.tokenKinds, at.Size(0), n.tokenKinds.Size(1)), 1, at)
}

// placesOf is the positions of tokens: a part of a buffer, or counted over what is
// no padding (create_position_ids_from_input_ids).
func (n *Net) placesOf(s stack, ids torch.Tensor) torch.Tensor {
	m := n.m
	if !s.Manner.Text.Counted {
		return m.Slice(n.places, 1, 0, min(ids.Size(1), n.places.Size(1)))
	}
	f := m.Function(&ids)
	mask := f.Let(m.To(m.Unary(torch.EqScalar, ids), dtype.I32))
	sums := m.Empty("cumsum", dtype.I64, ids.Shape()...)
	m.Drop(m.Empty("cumsum", dtype.I64, ids.Shape()...))
	counted := f.Let(m.Binary(torch.Mul, m.Unary(torch.AddScalar, m.To(sums, dtype.I32)), mask))
	return f.Return(m.Unary(torch.AddScalar, m.To(counted, dtype.I64)))
}

// encoderBuffers are what such classes register: positions, and kinds of token.
func (n *Net) encoderBuffers() {
	if !n.encodesText() {
		return
	}
	if table := n.outside.one(model.RolePositionEmbedding); table.Defined() {
		n.places = n.m.Buffer(dtype.I64, 1, table.Size(0))
		if n.outside.has(model.RoleTypeEmbedding) {
			n.tokenKinds = n.m.Buffer(dtype.I64, 1, table.Size(0))
		}
	}
}

// behind is norm(x + f(x)), twice.
func (n *Net) behind(f *torch.Frame, l *layer, x torch.Tensor, p position) torch.Tensor {
	m, a := n.m, l.Mixers[0].(model.Attention)
	if n.manner().Text.SelfOutput {
		attended := f.Let(n.selfAttention(l, a, x, p))
		inner := m.Function(&attended)
		made := inner.Let(n.network(l, attended))
		return inner.Return(n.output(l, model.RoleDown, model.RoleDownBias, 1, made, attended))
	}
	attended := f.Let(n.attention(l, a, x, position{}))
	f.Set(&attended, n.layerNorm(l, 0, m.Binary(torch.Add, attended, x)))
	made := f.Let(n.dropped(n.feedForward(l, attended), n.manner().Dropout.Residual))
	f.Set(&made, n.layerNorm(l, 1, m.Binary(torch.Add, made, attended)))
	return made
}

// selfAttention is BertAttention: scores in one module, the projection with the
// sum and the norm in another.
func (n *Net) selfAttention(l *layer, a model.Attention, x torch.Tensor, p position) torch.Tensor {
	m := n.m
	f := m.Module("attention", &x)
	inner := m.Module("self", &x)
	var scored torch.Tensor
	if n.olderThan(sharedAttention) {
		scored = n.scoredInPlace(inner, l, a, x, p.full)
	} else {
		q, k, v, _ := n.projected(inner, l, a, x, x, 0)
		scored = inner.Let(n.attend(a, q, k, v, torch.Tensor{}))
	}
	inner.Set(&scored, n.joined(scored))
	scored = f.Let(inner.Return(scored))
	return f.Return(n.output(l, model.RoleAttentionOutput, model.RoleAttentionOutputBias, 0, scored, x))
}

// scoredInPlace is the attention of earlier releases, within the module: its
// names live as long as those of queries, keys and values do
// (https://github.com/huggingface/transformers/blob/v4.27.4/src/transformers/models/bert/modeling_bert.py).
func (n *Net) scoredInPlace(f *torch.Frame, l *layer, a model.Attention, x, mask torch.Tensor) torch.Tensor {
	m := n.m
	mixed := n.linear(l.linear("query", model.RoleQuery, model.RoleQueryBias, 0), x)
	k := f.Let(n.heads(n.split(n.linear(l.linear("key", model.RoleKey, model.RoleKeyBias, 0), x), a.KeyDim)))
	v := f.Let(n.heads(n.split(n.linear(l.linear("value", model.RoleValue, model.RoleValueBias, 0), x), a.ValueDim)))
	q := f.Let(n.heads(n.split(mixed, a.KeyDim)))
	scores := f.Let(m.Matmul(q, m.Transpose(k, 2, 3)))
	f.Set(&scores, m.Unary(torch.DivScalar, scores))
	f.Set(&scores, m.Binary(torch.Add, scores, mask))
	shares := f.Let(m.Softmax(scores, dtype.Unknown))
	f.Set(&shares, n.dropped(shares, n.manner().Dropout.Attention))
	out := f.Let(m.Matmul(shares, v))
	f.Set(&out, m.Contiguous(m.Transpose(out, 1, 2)))
	return out
}

// network is BertIntermediate.
func (n *Net) network(l *layer, x torch.Tensor) torch.Tensor {
	f := n.m.Module("intermediate", &x)
	d, dense := l.FeedForward.(model.Dense)
	if !dense || d.Gated {
		n.m.Unknown("an encoder of text with a network of this kind has no program here")
		return f.Return(x)
	}
	f.Set(&x, n.linear(l.linear("dense", model.RoleUp, model.RoleUpBias, 0), x))
	f.Set(&x, n.activation(d.Activation, x))
	return f.Return(x)
}

// output is BertSelfOutput and BertOutput: norm(dropout(dense(x)) + residual).
func (n *Net) output(l *layer, weight, bias model.Role, norm int, x, residual torch.Tensor) torch.Tensor {
	f := n.m.Module("output", &x, &residual)
	f.Set(&x, n.linear(l.linear("dense", weight, bias, 0), x))
	f.Set(&x, n.dropped(x, n.manner().Dropout.Residual))
	f.Set(&x, n.layerNorm(l, norm, n.m.Binary(torch.Add, x, residual)))
	return f.Return(x)
}

// classified is a dense layer over the first position, and a classifier.
func (n *Net) classified(x torch.Tensor) torch.Tensor {
	m, text, head := n.m, n.manner().Text, n.manner().Dropout.Head
	f := m.Module("classifier", &x)
	first := f.Let(m.Select(x, 1))
	if text.DropsPooled {
		f.Set(&first, n.dropped(first, head))
	}
	f.Set(&first, n.linear(n.outside.classifier(0), first))
	f.Set(&first, n.activation(text.Activation, first))
	f.Set(&first, n.dropped(first, head))
	return f.Return(n.linear(n.outside.classifier(2), first))
}

// classifier is a dense layer of a head, whose weight and bias stand one behind
// the other.
func (w weights) classifier(at int) linear {
	l := w.at(model.RoleClassifier, at)
	l.name, l.bias = "classifier", w.at(model.RoleClassifier, at+1).weight
	return l
}

// unmasked is the head over the vocabulary: a dense layer, its activation, a norm,
// and the token embedding with a bias of its own.
func (n *Net) unmasked(x torch.Tensor) torch.Tensor {
	f := n.m.Module("cls", &x)
	dense := n.outside.at(model.RoleHead, 0)
	dense.name, dense.bias = "dense", n.outside.at(model.RoleHeadBias, 0).weight
	x = f.Let(n.linear(dense, x))
	d, _ := n.stacks[0].layers[0].FeedForward.(model.Dense)
	f.Set(&x, n.activation(d.Activation, x))
	f.Set(&x, n.norm("LayerNorm", n.stacks[0].layers[0].Norms[0], n.outside.at(model.RoleNorm, 1).weight, n.outside.at(model.RoleNormBias, 1).weight, x))
	decoder := linear{name: "decoder", weight: n.outside.one(model.RoleTokenEmbedding), bias: n.outside.at(model.RoleHeadBias, 1).weight}
	f.Set(&x, n.linear(decoder, x))
	return f.Return(x)
}
