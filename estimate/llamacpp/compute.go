package llamacpp

import (
	"floodmark/account"
	"floodmark/bytesize"
	"floodmark/model"
)

// graph is the sizes by which the largest graph of a device is reserved.
type graph struct {
	stream  int64 // elements of one position between layers
	widest  int64 // elements of one position inside attention
	forward int64 // elements of one position inside a feed-forward network
	heads   int64
	known   bool
}

// sizes are those of the layers of the device.
func (l *layout) sizes() graph {
	g := graph{known: true}
	for _, ref := range l.in.Plan.Layers {
		stack := l.in.Model.Stacks[ref.Stack]
		g.stream = max(g.stream, int64(stack.Width))
		layer := l.in.Plan.Layer(l.in.Model, ref)
		for _, mixer := range layer.Mixers {
			switch a := mixer.(type) {
			case model.Attention:
				g.heads = max(g.heads, int64(a.QueryHeads))
				g.widest = max(g.widest, int64(a.QueryHeads)*int64(max(a.KeyDim, a.ValueDim)))
			case model.GatedDelta, model.Mamba, model.ShortConv:
				// Their graphs are no wider than a feed-forward network's.
			default:
				g.known = false
			}
		}
		switch f := layer.FeedForward.(type) {
		case model.Dense:
			g.forward = max(g.forward, 3*int64(f.Width))
		case model.Experts:
			routed := int64(max(1, f.Active)) * (3*int64(f.Width) + 2*int64(stack.Width))
			g.forward = max(g.forward, routed+3*int64(f.SharedWidth))
		}
	}
	return g
}

// scores is the product of queries and keys of one micro-batch with every cell,
// in 32 bits, for all heads of a layer. Worked number: 131,072 cells × 512
// positions × 64 heads × 4 bytes are 17,179,869,184, for each of gpt-oss-20b's
// slots; 4,096 × 512 × 64 × 4 are 512 MiB of the 672 that Command-R reserved
// (https://github.com/ggml-org/llama.cpp/issues/6122).
func (l *layout) scores() int64 {
	n, fits := bytesize.Mul(l.o.length, max(1, l.o.slots), l.o.micro, l.sizes().heads, 4)
	if !fits {
		return -1
	}
	return n
}

// rows of a graph's 32-bit tensors that are alive beside the largest: the stream,
// queries, keys, values and their norms. Seven were seen of Command-R, whose
// attention and feed-forward network run side by side; two or fewer beside
// logits.
const (
	attentionRows = 12
	logitRows     = 4
)

// compute is the buffer of the largest graph, which is reserved at the start
// (graph_reserve of src/llama-context.cpp): the head with logits of a micro-batch
// on the device of the last layer, a feed-forward network, or attention with its
// scores where no kernel fuses it. Worked number: 512 × (151,552 + 6,144) × 4
// bytes are the 308 MiB of GLM-Z1-32B
// (https://github.com/ikawrakow/ik_llama.cpp/pull/370).
func (l *layout) compute() account.Figure {
	p := provenance(computeFormula, account.Requested)
	g := l.sizes()
	rows := func(elements int64) int64 { return product(l.o.micro, elements, 4) }
	mask := product(l.o.length, max(1, l.o.slots), l.o.micro, 4)
	low, high := rows(g.stream), max(rows(g.forward+logitRows*g.stream), rows(attentionRows*max(g.widest, g.stream)))
	if l.in.Plan.Last {
		logits := rows(int64(l.in.Model.Vocab) + g.stream)
		if !l.o.capped {
			low = max(low, logits)
		}
		high = max(high, logits+rows((logitRows-1)*g.stream))
	}
	scores := l.scores()
	if l.o.scoring != flash {
		high = max(high, sum(scores, mask, rows(attentionRows*max(g.widest, g.stream))))
	}
	if l.o.scoring == scored {
		low = max(low, scores)
	}
	high = sum(high, mask)
	switch why := l.open(g); {
	case scores < 0 || mask < 0 || high < 0:
		return account.Unknown(bytesize.ErrOverflow.Error(), p)
	case why != "":
		return account.AtLeast(low, why, p)
	}
	return account.Between(low, high, p)
}

// open is why nobody can say how large the compute buffer is at most.
func (l *layout) open(g graph) string {
	switch {
	case !g.known:
		return "the graph of attention of this kind is not modelled"
	case l.in.Plan.Mesh.Ranks() > 1:
		return "the copies of inputs by which several devices overlap are not modelled"
	}
	return ""
}

// product multiplies; −1 for what 63 bits do not hold, and of what is less.
func product(factors ...int64) int64 {
	for _, n := range factors {
		if n < 0 {
			return -1
		}
	}
	if n, fits := bytesize.Mul(factors...); fits {
		return n
	}
	return -1
}

// sum adds; −1 for what 63 bits do not hold, and with what is less.
func sum(list ...int64) int64 {
	for _, n := range list {
		if n < 0 {
			return -1
		}
	}
	if n, fits := bytesize.Add(list...); fits {
		return n
	}
	return -1
}
