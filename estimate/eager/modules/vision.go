package modules

import (
	"math"
	"slices"

	"floodmark/dtype"
	"floodmark/internal/torch"
	"floodmark/model"
)

// vision is a tower over patches of a picture, with a head that classifies.
func (n *Net) vision() bool {
	return len(n.stacks) == 1 && n.stacks[0].Kind == model.Vision && len(n.outside[model.RolePatchEmbedding]) == 3 &&
		n.outside.at(model.RolePatchEmbedding, 0).weight.Dims() == 4
}

// classifier is ViTForImageClassification
// (https://github.com/huggingface/transformers/blob/v4.57.3/src/transformers/models/vit/modeling_vit.py).
func (n *Net) classifier(b Batch) (logits, loss torch.Tensor) {
	m := n.m
	f := m.Module("", &b.Pixels)
	x := f.Let(n.tower(n.stacks[0], b.Pixels))
	pooled := f.Let(n.pooled(x))
	if !n.outside.has(model.RoleClassifier) {
		return f.Return2(pooled, torch.Tensor{})
	}
	head := linear{name: "classifier", weight: n.outside.one(model.RoleClassifier), bias: n.outside.at(model.RoleClassifier, 1).weight}
	logits = m.AsLogits(f.Let(n.linear(head, pooled)))
	if b.Labels.Defined() {
		loss = f.Let(m.CrossEntropy(m.Reshape(logits, -1, logits.Size(-1)), m.Reshape(b.Labels, -1)))
	}
	return f.Return2(logits, loss)
}

// pooled is what a classifier reads: the first position, beside it the mean of the
// others where it is as wide as both.
func (n *Net) pooled(x torch.Tensor) torch.Tensor {
	m, head := n.m, n.outside.one(model.RoleClassifier)
	if !head.Defined() || head.Size(1) != 2*x.Size(2) {
		return m.Select(m.Slice(x, 1, 0, 1), 1)
	}
	f := m.Function(&x)
	first := f.Let(m.Select(m.Slice(x, 1, 0, 1), 1))
	rest := f.Let(m.Slice(x, 1, 1, x.Size(1)))
	return f.Return(m.Cat(1, first, m.Mean(rest, false, 1)))
}

// tower is the patches, the layers and the last norm.
func (n *Net) tower(s stack, pixels torch.Tensor) torch.Tensor {
	m := n.m
	f := m.Module("vit", &pixels)
	x := f.Let(f.Let(n.patches(s, pixels))) // the embeddings keep a name of their own
	for layers := range slices.Chunk(s.layers, n.segment()) {
		f.Set(&x, n.through(layers, x, position{}))
	}
	f.Set(&x, n.norm("layernorm", s.layers[0].Norms[0], n.outside.one(model.RoleFinalNorm), n.outside.one(model.RoleNormBias), x))
	return f.Return(x)
}

// patches is ViTEmbeddings: a convolution whose kernel is a patch, the class
// token before the patches, and positions.
func (n *Net) patches(s stack, pixels torch.Tensor) torch.Tensor {
	m := n.m
	f := m.Module("embeddings", &pixels)
	weight, bias := n.outside.at(model.RolePatchEmbedding, 0).weight, n.outside.at(model.RolePatchEmbedding, 1).weight
	side := weight.Size(-1)
	made := m.Convolution(pixels, weight, bias, []int64{side, side}, []int64{0, 0}, 1)
	x := f.Let(m.Transpose(m.Reshape(made, made.Size(0), made.Size(1), -1), 1, 2))
	if token := n.outside.at(model.RolePatchEmbedding, 2).weight; token.Defined() && token.Dims() == 3 {
		tokens := f.Let(m.Expand(token, x.Size(0), 1, x.Size(2)))
		f.Set(&x, m.Cat(1, tokens, x))
	}
	if positions := n.outside.one(model.RolePositionEmbedding); positions.Defined() {
		f.Set(&x, m.Binary(torch.Add, x, positions))
	}
	f.Set(&x, n.dropped(x, s.Manner.Dropout.Embedding))
	return f.Return(x)
}

// Resolution is the side of the pictures that a tower's positions are for, in
// pixels: a class token and registers, unless they have none, and a patch for each
// place of a square.
func (n *Net) Resolution() int64 {
	table := n.outside.one(model.RolePositionEmbedding)
	weight, _ := n.patchKernel()
	if !table.Defined() || table.Dims() != 3 || !weight.Defined() {
		return 0
	}
	patches := table.Size(1)
	if !n.manner().Pictures.Apart {
		for _, t := range n.prefixTokens() {
			patches -= t.Size(1)
		}
	}
	side := int64(math.Sqrt(float64(patches)))
	if side*side != patches {
		return 0
	}
	return side * weight.Size(-1)
}

// patchKernel is the convolution over patches, and its bias where it has one.
func (n *Net) patchKernel() (weight, bias torch.Tensor) {
	for i, l := range n.outside[model.RolePatchEmbedding] {
		if l.weight.Dims() == 4 {
			return l.weight, n.outside.at(model.RolePatchEmbedding, i+1).weight
		}
	}
	return weight, bias
}

// prefixTokens is the tokens that stand before the patches: of the class, and
// registers.
func (n *Net) prefixTokens() (tokens []torch.Tensor) {
	for _, l := range n.outside[model.RolePatchEmbedding] {
		if l.weight.Dims() == 3 {
			tokens = append(tokens, l.weight)
		}
	}
	return tokens
}

// pixelsOf is the shape of a batch of pictures.
func (n *Net) pixelsOf(batch, side int64) []int64 {
	weight, _ := n.patchKernel()
	return []int64{batch, weight.Size(1), side, side}
}

// Pixels makes a batch of square pictures.
func (n *Net) Pixels(f dtype.Format, batch, side int64) torch.Tensor {
	return n.m.Input(f, n.pixelsOf(batch, side)...)
}
