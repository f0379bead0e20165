package modules

import (
	"slices"

	"floodmark/dtype"
	"floodmark/internal/torch"
	"floodmark/model"
)

// What differs between releases of timm
// (https://github.com/huggingface/pytorch-image-models, timm/models/vision_transformer.py
// and timm/models/_manipulate.py; oracle/timm_recipe.py records 0.9.16 and 1.0.31).

// reentrantBlocks: set_grad_checkpointing leaves PyTorch's older way of checkpointing
// (checkpoint_seq passes no use_reentrant before 1.0.13).
func (r Release) reentrantBlocks() bool {
	return r != (Release{}) && (r.less(Release{Major: 1}) || r.Major == 1 && r.Minor == 0 && r.Patch < 13)
}

// Reentrant reports checkpointing by PyTorch's older way, as the release of the
// software chooses it.
func (s Software) Reentrant(r Release) bool {
	if s == Timm {
		return r.reentrantBlocks()
	}
	return s == Transformers && r != (Release{}) // what gradient_checkpointing_enable chose before release 5
}

// timmLoss is a step that has no name for its logits, of plain cross entropy.
func (n *Net) timmLoss(b Batch) torch.Tensor {
	m := n.m
	logits := n.timmLogits(b)
	n.beforeLoss()
	f := m.Function(&logits)
	return f.Return(m.CrossEntropy(logits, b.Labels))
}

// timmLogits is VisionTransformer: forward_features and forward_head.
func (n *Net) timmLogits(b Batch) torch.Tensor {
	m := n.m
	f := m.Module("", &b.Pixels)
	x := f.Let(n.timmFeatures(b.Pixels))
	g := m.Function(&x)
	g.Set(&x, n.timmPooled(x))
	if n.manner().Pictures.PooledNorm {
		g.Set(&x, n.timmNorm("fc_norm", model.RoleFinalNorm, x))
	}
	g.Set(&x, n.dropped(x, n.manner().Dropout.Head))
	head := n.outside.classifier(0)
	head.name = "head"
	f.Set(&x, g.Return(n.linear(head, x)))
	return m.AsLogits(f.Return(x))
}

// timmFeatures is the patches, the blocks and the norm behind them.
func (n *Net) timmFeatures(pixels torch.Tensor) torch.Tensor {
	m := n.m
	f := m.Function(&pixels)
	x := f.Let(n.timmPatches(pixels))
	f.Set(&x, n.timmPlaces(x))
	if n.outside.has(model.RoleNorm) {
		f.Set(&x, n.timmNorm("norm_pre", model.RoleNorm, x))
	}
	f.Set(&x, n.timmBlocks(x))
	if !n.manner().Pictures.PooledNorm {
		f.Set(&x, n.timmNorm("norm", model.RoleFinalNorm, x))
	}
	return f.Return(x)
}

// timmNorm is a norm outside the blocks.
func (n *Net) timmNorm(name string, of model.Role, x torch.Tensor) torch.Tensor {
	bias := 0 // that of a norm before the blocks stands first
	if of == model.RoleFinalNorm {
		bias = len(n.outside[model.RoleNormBias]) - 1
	}
	return n.norm(name, n.stacks[0].layers[0].Norms[0], n.outside.one(of), n.outside.at(model.RoleNormBias, bias).weight, x)
}

// timmPatches is PatchEmbed: a convolution whose kernel is a patch.
func (n *Net) timmPatches(x torch.Tensor) torch.Tensor {
	m := n.m
	f := m.Module("patch_embed", &x)
	weight, bias := n.patchKernel()
	side := weight.Size(-1)
	f.Set(&x, m.Convolution(x, weight, bias, []int64{side, side}, []int64{0, 0}, 1))
	f.Set(&x, m.Transpose(m.Reshape(x, x.Size(0), x.Size(1), -1), 1, 2))
	return f.Return(x)
}

// timmPlaces is _pos_embed: positions are added to the patches before other tokens
// are put there, or to all of them after it.
func (n *Net) timmPlaces(x torch.Tensor) torch.Tensor {
	m := n.m
	f := m.Function(&x)
	var list []torch.Tensor
	for _, t := range n.prefixTokens() {
		list = append(list, f.Let(m.Expand(t, x.Size(0), t.Size(1), t.Size(2))))
	}
	add := func() { f.Set(&x, m.Binary(torch.Add, x, n.outside.one(model.RolePositionEmbedding))) }
	apart := n.manner().Pictures.Apart
	if apart {
		add()
	}
	if len(list) > 0 {
		f.Set(&x, m.Cat(1, append(list, x)...))
	}
	if !apart {
		add()
	}
	return f.Return(n.dropped(x, n.manner().Dropout.Embedding))
}

// timmBlocks runs the blocks, each checkpointed by itself where that is asked for
// (checkpoint_seq).
func (n *Net) timmBlocks(x torch.Tensor) torch.Tensor {
	f := n.m.Module("blocks", &x)
	for layers := range slices.Chunk(n.stacks[0].layers, n.segment()) {
		f.Set(&x, n.checkpointed(x, func(x torch.Tensor) torch.Tensor {
			g := n.m.Function(&x)
			for i := range layers {
				g.Set(&x, n.timmBlock(&layers[i], x))
			}
			return g.Return(x)
		}))
	}
	return f.Return(x)
}

// timmBlock is Block.
func (n *Net) timmBlock(l *layer, x torch.Tensor) torch.Tensor {
	m := n.m
	f := m.Module("blocks", &x)
	f.Set(&x, m.Binary(torch.Add, x, n.timmPath(l, n.timmScale(l, 0, n.timmAttention(l, n.layerNorm(l, 0, x))))))
	f.Set(&x, m.Binary(torch.Add, x, n.timmPath(l, n.timmScale(l, 1, n.timmNetwork(l, n.layerNorm(l, 1, x))))))
	return f.Return(x)
}

// timmScale is LayerScale, where the model has it.
func (n *Net) timmScale(l *layer, place int, x torch.Tensor) torch.Tensor {
	if !l.has(model.RoleLayerScale) {
		return x
	}
	return n.layerScale(l, place, x)
}

// timmPath is DropPath: a number a picture, by which what joins the stream is
// multiplied. The first layer leaves nothing out (calculate_drop_path_rates).
func (n *Net) timmPath(l *layer, x torch.Tensor) torch.Tensor {
	if !n.o.Training || n.manner().Pictures.DropPath == 0 || l.Index == 0 {
		return x
	}
	m := n.m
	f := m.Module("drop_path", &x)
	shape := []int64{x.Size(0)}
	for range x.Dims() - 1 {
		shape = append(shape, 1)
	}
	random := f.Let(m.Empty("new_empty", x.Dtype(), shape...))
	return f.Return(m.Binary(torch.Mul, x, random))
}

// timmAttention is Attention: one projection, cut into query, key and value.
func (n *Net) timmAttention(l *layer, x torch.Tensor) torch.Tensor {
	m, a := n.m, l.Mixers[0].(model.Attention)
	f := m.Module("attn", &x)
	batch, length, heads, dim := x.Size(0), x.Size(1), int64(a.QueryHeads), int64(a.KeyDim)
	joined := n.linear(l.linear("qkv", model.RoleQKV, model.RoleQKVBias, 0), x)
	qkv := f.Let(m.Permute(m.Reshape(joined, batch, length, 3, heads, dim), 2, 0, 3, 1, 4))
	parts := m.Unbind(qkv, 0)
	q, k, v := f.Let(parts[0]), f.Let(parts[1]), f.Let(parts[2])
	if n.o.Attention == Eager {
		f.Set(&q, m.Unary(torch.MulScalar, q))
		shares := f.Let(m.Matmul(q, m.Transpose(k, -2, -1)))
		f.Set(&shares, m.Softmax(shares, dtype.Unknown))
		f.Set(&shares, n.dropped(shares, n.manner().Dropout.Attention))
		f.Set(&x, m.Matmul(shares, v))
	} else {
		how := torch.Attention{Dropout: n.dropsAttention()}
		how.Kernel = n.kernel(how, q, k, v, torch.Tensor{})
		f.Set(&x, m.ScaledDotProduct(how, q, k, v, torch.Tensor{}))
	}
	f.Set(&x, m.Reshape(m.Transpose(x, 1, 2), batch, length, heads*dim))
	f.Set(&x, n.linear(l.linear("proj", model.RoleAttentionOutput, model.RoleAttentionOutputBias, 0), x))
	return f.Return(n.dropped(x, n.manner().Dropout.Residual))
}

// timmNetwork is Mlp, or GluMlp where both halves of a gate are one projection. What
// is between the projections is dropped as what comes behind them is.
func (n *Net) timmNetwork(l *layer, x torch.Tensor) torch.Tensor {
	m, d, drop := n.m, l.FeedForward.(model.Dense), n.manner().Dropout.Residual
	f := m.Module("mlp", &x)
	if d.Gated {
		f.Set(&x, n.linear(l.linear("fc1", model.RoleGateUp, model.RoleGateUpBias, 0), x))
		halves := m.Split(x, -1, int64(d.Width), int64(d.Width))
		gate, up := f.Let(halves[0]), f.Let(halves[1])
		f.Set(&x, m.Binary(torch.Mul, n.activation(d.Activation, gate), up))
	} else {
		f.Set(&x, n.linear(l.linear("fc1", model.RoleUp, model.RoleUpBias, 0), x))
		f.Set(&x, n.activation(d.Activation, x))
	}
	f.Set(&x, n.dropped(x, drop))
	f.Set(&x, n.linear(l.linear("fc2", model.RoleDown, model.RoleDownBias, 0), x))
	return f.Return(n.dropped(x, drop))
}

// timmPooled is what the head reads of all positions (global_pool_nlc).
func (n *Net) timmPooled(x torch.Tensor) torch.Tensor {
	m := n.m
	if n.manner().Pictures.Pool == "token" {
		return m.Select(x, 1)
	}
	var before int64
	for _, t := range n.prefixTokens() {
		before += t.Size(1)
	}
	if before > 0 {
		x = m.Slice(x, 1, before, x.Size(1))
	}
	return m.Mean(x, false, 1)
}

// timmLacks is what of a model timm builds of other modules than these.
func (n *Net) timmLacks() string {
	p := n.manner().Pictures
	weight, _ := n.patchKernel()
	switch {
	case n.o.Release != (Release{}) && n.o.Release.less(Release{Minor: 9}):
		return "timm's modules have a program for releases from 0.9 on"
	case n.model.Type != model.TimmVision:
		return "timm builds models of its own: name one of them (timm/vit_base_patch16_224), or a config.json that has its architecture"
	case p.Pool != "token" && p.Pool != "avg":
		return "timm's pooling " + p.Pool + " has no program here"
	case !weight.Defined(), !n.outside.has(model.RolePositionEmbedding), !n.outside.has(model.RoleFinalNorm):
		return "timm's models have a program here where patches, positions and a last norm are known"
	case n.o.Training && !n.outside.has(model.RoleClassifier):
		return "a model of timm without classes has no loss of its own: say num_classes in its config.json"
	}
	return ""
}
