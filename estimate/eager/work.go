package eager

import (
	"floodmark/account"
	"floodmark/bytesize"
	"floodmark/model"
	"floodmark/workload"
)

// work is what the layers of a rank make of their positions. Bytes are those of
// one position.
type work struct {
	d         dimensions
	width     int64 // bytes of an element
	residual  int64 // the widest residual stream
	stages    []stage
	attention int64 // the most that one position keeps alive in attention
	heads     int64 // query heads of the widest attention
	pair      int64 // key and value repeated for all query heads, for one position
	one       int64 // key or value of all KV heads of one layer, the wider, for one position
	tower     bool  // it runs before the context does
	foreign   int64 // what positions of other replicas make here, routed to the rank's experts, for one position of its own
	sequence  int64 // what recurrent layers make for each sequence, whatever its length
	masked    bool  // a mask is needed even where no sequence is padded
	unknown   string
}

// stage is a point of a layer at which these tensors are alive together.
type stage []int64

// sum is the bytes of a stage; −1 when they do not fit in 63 bits.
func (s stage) sum() int64 {
	for _, n := range s {
		if n < 0 {
			return -1
		}
	}
	if n, fits := bytesize.Add(s...); fits {
		return n
	}
	return -1
}

// product multiplies sizes; −1 when they do not fit in 63 bits.
func product(factors ...int64) int64 {
	if n, fits := bytesize.Mul(factors...); fits {
		return n
	}
	return -1
}

func newWork(b *builder, d dimensions) *work {
	w := &work{d: d}
	w.width, _ = b.compute().Size(nil)
	if w.width == 0 {
		w.unknown = "the model's configuration does not say in which format it computes"
		return w
	}
	w.stagesOf(b, b.text)
	_, declared := b.in.Workload.Dimension(workload.EncoderLength)
	for _, ref := range b.in.Plan.Layers {
		if s := &b.in.Model.Stacks[ref.Stack]; s.Kind == model.Audio && !declared {
			w.unknown = "the workload does not say how many positions the tower " + s.Name + " runs over (encoder_length)"
		}
	}
	return w
}

// text reports the stacks that run over the context: an encoder only where there
// is no decoder behind it.
func (b *builder) text(k model.StackKind) bool {
	return k != model.Vision && k != model.Audio && (k != model.Encoder || !b.encoderStack())
}

// before is the stacks that run before the context does: towers over their
// patches and sounds, and an encoder of text.
func (b *builder) before(d dimensions) []*work {
	var list []*work
	for _, kind := range []model.StackKind{model.Vision, model.Audio, model.Encoder} {
		w := &work{d: d, tower: true, masked: kind == model.Vision}
		w.d.context = d.encoder
		if kind == model.Vision {
			w.d.context = d.patches
		}
		if b.text(kind) || w.d.context <= 0 {
			continue
		}
		w.width, _ = b.compute().Size(nil)
		w.stagesOf(b, func(k model.StackKind) bool { return k == kind })
		list = append(list, w)
	}
	return list
}

// stagesOf adds the stages of the layers of some stacks, each kind of layer
// once.
func (w *work) stagesOf(b *builder, of func(model.StackKind) bool) {
	seen := map[kind]bool{}
	for _, ref := range b.in.Plan.Layers {
		s := &b.in.Model.Stacks[ref.Stack]
		if !of(s.Kind) {
			continue
		}
		layer := b.in.Plan.Layer(b.in.Model, ref)
		if k := kindOf(ref.Stack, layer); !seen[k] {
			seen[k] = true
			w.layer(b, layer, int64(s.Width))
		}
	}
}

// kind tells layers of one stack apart: two of one kind work alike.
type kind struct {
	stack         int32
	mixers        int
	first, second model.Mixer
	feed          model.FeedForward
}

func kindOf(stack int32, l model.Layer) kind {
	k := kind{stack: stack, mixers: len(l.Mixers), feed: l.FeedForward}
	for i, m := range l.Mixers {
		if a, ok := m.(model.LatentAttention); ok {
			a.Indexer = nil // each layer has its own, and none makes a stage
			m = a
		}
		switch i {
		case 0:
			k.first = m
		case 1:
			k.second = m
		}
	}
	return k
}

// layer adds the stages of one layer in the unfused form. What the functions
// around it hold stays alive: the embeddings that the loop began with, the
// layer's input, and the stream after attention.
func (w *work) layer(b *builder, l model.Layer, hidden int64) {
	r := product(hidden, w.width)
	w.residual = max(w.residual, r)
	held := stage{r, r, r}
	// A norm in 32 bits makes two copies of the stream before the result.
	w.stages = append(w.stages, append(stage{product(4, hidden), product(4, hidden), r}, held...))
	for _, m := range l.Mixers {
		w.mixer(m, b.how, held, r)
	}
	switch f := l.FeedForward.(type) {
	case model.Dense:
		w.dense(int64(f.Width), f.Gated, held, r)
	case model.Experts:
		w.experts(f, held, r)
		w.uneven(b, f, r)
	}
}

// dense is the three products of a gated network, or the two of a plain one:
// fused software holds the first two together, and so is no larger.
func (w *work) dense(width int64, gated bool, held stage, r int64) {
	f := product(width, w.width)
	live := stage{r, f, f}
	if gated {
		live = append(live, f)
	}
	w.stages = append(w.stages, append(live, held...))
}

// experts is what the routed experts make of a position: its copies on their
// way in and out, and the products of as many experts as one position uses. A
// loop over experts holds no more, for all positions may choose the same one.
func (w *work) experts(e model.Experts, held stage, r int64) {
	used := int64(max(1, e.Active))
	f := product(used, int64(e.Width), w.width)
	live := stage{r, r, product(12, int64(e.Count)), product(used, r), product(used, r), f, f, f}
	w.stages = append(w.stages, append(live, held...))
	if e.SharedWidth > 0 {
		w.dense(int64(e.SharedWidth), e.Gated, append(stage{r}, held...), r)
	}
}

// uneven is what one more rank's positions make here in the worst case: routing
// need not be balanced, and the ranks that share the experts may send all of
// their positions to this one, each to as many experts as it holds. Ranks of one
// tensor-parallel group have the same positions; those of other replicas have
// their own.
func (w *work) uneven(b *builder, e model.Experts, r int64) {
	mesh := b.in.Plan.Mesh
	if mesh.ExpertParallel < 2 {
		return
	}
	groups := bytesize.CeilDiv(int64(mesh.ExpertParallel), int64(max(1, mesh.TensorParallel)))
	here := int64(min(max(1, e.Active), max(1, e.Count)))
	one := stage{product(2, here, r), product(3, here, int64(e.Width), w.width)}.sum()
	w.foreign = max(w.foreign, product(groups-1, one))
	if one < 0 || product(groups, one) < 0 {
		w.unknown = bytesize.ErrOverflow.Error()
	}
}

func (w *work) mixer(m model.Mixer, how manner, held stage, r int64) {
	switch a := m.(type) {
	case model.Attention:
		w.masked = w.masked || a.Window > 0 || a.Chunk > 0
		heads, kv, key, value := int64(a.QueryHeads), int64(a.KVHeads), int64(a.KeyDim), int64(a.ValueDim)
		w.attend(heads, product(heads, key, w.width), product(kv, key, w.width), product(kv, value, w.width), product(heads, value, w.width), held, r)
	case model.LatentAttention:
		heads := int64(a.QueryHeads)
		q, v := product(heads, int64(a.NopeDim)+int64(a.RopeDim), w.width), product(heads, int64(a.ValueDim), w.width)
		compressed := product(int64(a.QueryRank)+2*(int64(a.KVRank)+int64(a.RopeDim)), w.width)
		w.attend(heads, q, q, v, v, append(stage{compressed, q, v}, held...), r)
	case model.ShortConv:
		inner := product(int64(a.Width), w.width)
		w.stages = append(w.stages, append(stage{r, product(3, inner), inner, inner}, held...))
	case model.Mamba, model.GatedDelta, model.LinearAttention:
		w.recurrent(m, how, held, r)
	}
}

// attend is the stages of attention: query, key and value with their turned
// copies; then the output beside them.
func (w *work) attend(heads, q, k, v, out int64, held stage, r int64) {
	w.heads = max(w.heads, heads)
	if k < q { // heads of keys that several query heads share are repeated
		w.pair = max(w.pair, stage{q, out}.sum())
	}
	w.one = max(w.one, k, v)
	turned, done := append(stage{r, q, k, v, q, q, k}, held...), append(stage{q, k, v, out, r}, held...)
	w.attention = max(w.attention, turned.sum(), done.sum())
	w.stages = append(w.stages, turned, done)
}

// peak is the most that one position keeps alive in a layer.
func (w *work) peak() int64 {
	most := int64(0)
	for _, s := range w.stages {
		n := s.sum()
		if n < 0 {
			return -1
		}
		most = max(most, n)
	}
	return most
}

// blocks is what one position needs when each size of tensor keeps as many
// blocks as are ever alive at once: no size serves another.
func (w *work) blocks() int64 {
	most := map[int64]int64{}
	for _, s := range w.stages {
		count := map[int64]int64{}
		for _, n := range s {
			count[n]++
			most[n] = max(most[n], count[n])
		}
	}
	sum := int64(0)
	for size, count := range most {
		n, fits := bytesize.Mul(size, count)
		total, adds := bytesize.Add(sum, n)
		if !fits || !adds {
			return -1
		}
		sum = total
	}
	return sum
}

// between is an interval of products; unknown when the high does not fit in 63
// bits.
func between(p account.Provenance, low int64, high ...int64) account.Figure {
	n, fits := bytesize.Mul(high...)
	if !fits {
		return account.AtLeast(max(0, low), bytesize.ErrOverflow.Error(), p)
	}
	return account.Between(min(low, n), n, p)
}
