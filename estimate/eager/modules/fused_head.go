package modules

import (
	"floodmark/dtype"
	"floodmark/internal/torch"
	"floodmark/model"
)

// The tile of logits that TRL's fused head makes at once
// (trl 1.16.0, kernels/chunked_logprob.py, TOKEN_CHUNK_SIZE; trainer/utils.py,
// _CHUNKED_LOGPROB_CHUNK_SIZE). Worked number: 4,096 × 32,768 in bf16 are
// 268,435,456 bytes, of any vocabulary.
const (
	fusedTokens  = 4096
	fusedClasses = 32768
)

// fusedHeadRun runs the head in tiles, each of which is folded into statistics of its
// positions; backward makes each tile again, and adds the gradients up in 32 bits
// (trl 1.16.0, kernels/chunked_logprob.py, ChunkedLogProbFunction).
type fusedHeadRun struct {
	n       *Net
	shown   bool // entropy, mean and rank are asked for too
	compute dtype.Format
	rows    int64
	width   int64
	classes int64
}

// fusedPass is the log-probabilities of the labels. On CUDA the positions that count
// are taken, which are a copy; here all but the last of each sequence.
func (n *Net) fusedPass(b Batch, labels torch.Tensor, shown bool) (logps torch.Tensor) {
	n.underAutocast(func() {
		m := n.m
		n.begins()
		f := m.Module("", &b.IDs)
		last := f.Let(n.decoder(n.stacks[0], b))
		mask := f.Let(m.Unary(torch.EqScalar, m.Slice(labels, 1, 1, labels.Size(1))))
		x := m.Reshape(m.Slice(last, 1, 0, last.Size(1)-1), -1, last.Size(-1))
		tokens := n.tiledHead(x, n.outside.one(model.RoleHead), shown)
		logps = m.MaskedFill(m.Reshape(tokens, mask.Size(0), mask.Size(1)), mask)
		n.ends(torch.Tensor{})
		logps = f.Return(logps)
	})
	if n.o.Objective.Autocast != dtype.Unknown {
		logps = n.m.To(logps, dtype.F32)
	}
	return logps
}

// tiledHead applies the head.
func (n *Net) tiledHead(x, weight torch.Tensor, shown bool) torch.Tensor {
	r := &fusedHeadRun{n: n, shown: shown, compute: x.Dtype(), rows: x.Size(0), width: x.Size(1), classes: weight.Size(0)}
	if f := n.o.Objective.Autocast; f != dtype.Unknown {
		r.compute = f
	}
	return n.m.Apply(torch.Function{Name: "ChunkedLogProbFunction", Forward: func(c *torch.Call) []torch.Tensor { return r.forward(c, x, weight) }, Backward: func(g *torch.Gradients) { r.backward(g, x.Dtype(), weight) }}, x, weight)[0]
}

// statistics is how many numbers of a position forward keeps while it runs: the
// maximum, three sums of exponentials, the sum, the maximum before the target and the
// target's.
const statistics = 7

// tiles calls do for each tile, of so many positions and classes.
func (r *fusedHeadRun) tiles(rows func(first int64, n int64), do func(n, classes int64)) {
	for at := int64(0); at < r.rows; at += fusedTokens {
		n := min(fusedTokens, r.rows-at)
		rows(at, n)
		for c := int64(0); c < r.classes; c += fusedClasses {
			do(n, min(fusedClasses, r.classes-c))
		}
	}
}

func (r *fusedHeadRun) forward(c *torch.Call, x, weight torch.Tensor) []torch.Tensor {
	for range statistics {
		c.Empty(dtype.F32, r.rows)
	}
	c.Empty(r.compute, min(r.rows, fusedTokens), fusedClasses)
	var chunk torch.Tensor
	r.tiles(func(_, n int64) {
		if chunk.Defined() {
			c.Free(chunk)
		}
		if chunk = (torch.Tensor{}); x.Dtype() != r.compute {
			chunk = c.Empty(r.compute, n, r.width)
		}
	}, func(n, classes int64) {
		var w torch.Tensor
		if weight.Dtype() != r.compute {
			w = c.Empty(r.compute, classes, r.width)
		}
		if w.Defined() {
			c.Free(w)
		}
		if r.n.o.CPU {
			r.foldOnCPU(c, n, classes)
		}
	})
	logZ, logps := c.Empty(dtype.F32, r.rows), c.Empty(dtype.F32, r.rows)
	entropy := logZ
	if r.shown {
		entropy = c.Empty(dtype.F32, r.rows)
	}
	c.Save(x, weight, logZ, entropy)
	return []torch.Tensor{logps}
}

// foldOnCPU is _forward_tile, which PyTorch runs where no Triton is: tiles in 32 bits
// that CUDA does not make.
func (r *fusedHeadRun) foldOnCPU(c *torch.Call, n, classes int64) {
	tile := func() torch.Tensor { return c.Empty(dtype.F32, n, classes) }
	scaled := r.scaledTile(tile, c.Free)
	z := tile()
	c.Free(scaled)
	before := torch.Tensor{}
	if r.shown {
		before = c.Empty(dtype.Bool, n, classes)
		after := c.Empty(dtype.Bool, n, classes)
		filled := tile()
		c.Free(after)
		c.Free(filled)
	}
	shifted := tile()
	e := tile()
	c.Free(shifted)
	if r.shown {
		c.Free(tile())
		c.Free(before)
	}
	c.Free(z)
	c.Free(e)
}

func (r *fusedHeadRun) backward(g *torch.Gradients, format dtype.Format, weight torch.Tensor) {
	var ofX, ofWeight torch.Tensor
	if g.Needs(0) {
		ofX = g.Empty(dtype.F32, r.rows, r.width)
	}
	if g.Needs(1) {
		ofWeight = g.Empty(dtype.F32, weight.Shape()...)
	}
	g.Empty(r.compute, min(r.rows, fusedTokens), fusedClasses)
	var chunk torch.Tensor
	r.tiles(func(_, n int64) {
		if chunk.Defined() {
			g.Free(chunk)
		}
		if chunk = (torch.Tensor{}); format != r.compute {
			chunk = g.Empty(r.compute, n, r.width)
		}
	}, func(n, classes int64) { r.backwardOfTile(g, weight.Dtype(), n, classes) })
	if g.Needs(0) {
		g.Give(0, r.inFormat(g, ofX, format))
	}
	if g.Needs(1) {
		g.Give(1, r.inFormat(g, ofWeight, weight.Dtype()))
	}
}

// inFormat is a gradient as the input has it: itself, or a copy beside it.
func (r *fusedHeadRun) inFormat(g *torch.Gradients, x torch.Tensor, f dtype.Format) torch.Tensor {
	if f == dtype.F32 {
		return x
	}
	return g.Empty(f, x.Shape()...)
}

// backwardOfTile turns a tile into its gradient. What it is multiplied with is 16 bits
// wide on CUDA, of which products are added up in 32; elsewhere both are widened.
func (r *fusedHeadRun) backwardOfTile(g *torch.Gradients, stored dtype.Format, n, classes int64) {
	var w torch.Tensor
	if stored != r.compute {
		w = g.Empty(r.compute, classes, r.width)
	}
	if r.n.o.CPU {
		r.gradientOnCPU(g, n, classes)
		if r.compute != dtype.F32 {
			for range 2 { // of what comes before, and of the weight
				a, b := g.Empty(dtype.F32, n, classes), g.Empty(dtype.F32, max(classes, n), r.width)
				g.Free(a)
				g.Free(b)
			}
		}
	}
	if w.Defined() {
		g.Free(w)
	}
}

// scaledTile is the logits of a tile divided by the temperature, from a copy in 32 bits
// where the head computes in fewer.
func (r *fusedHeadRun) scaledTile(tile func() torch.Tensor, free func(torch.Tensor)) torch.Tensor {
	if r.compute == dtype.F32 {
		return tile()
	}
	wide := tile()
	scaled := tile()
	free(wide)
	return scaled
}

// gradientOnCPU is _backward_tile.
func (r *fusedHeadRun) gradientOnCPU(g *torch.Gradients, n, classes int64) {
	tile := func() torch.Tensor { return g.Empty(dtype.F32, n, classes) }
	y := r.scaledTile(tile, g.Free)
	z, logP, p, grad := tile(), tile(), tile(), tile()
	is := g.Empty(dtype.Bool, n, classes)
	float := tile()
	less := tile()
	g.Free(float)
	product := tile()
	for _, t := range []torch.Tensor{less, product, y, z, logP, p, grad, is} {
		g.Free(t)
	}
}
