package modules

import (
	"fmt"
	"slices"

	"floodmark/dtype"
	"floodmark/internal/torch"
	"floodmark/model"
)

// Attention is how scores are computed: the attn_implementation of transformers.
type Attention string

// The implementations that have a program.
const (
	Eager Attention = "eager"
	SDPA  Attention = "sdpa"
	// Flash2 is the package flash-attn, whose kernels take groups of heads and windows
	// as they are, without a mask.
	Flash2 Attention = "flash_attention_2"
)

// Experts is how routed experts are computed: the experts_implementation.
type Experts string

// The implementations that have a program.
const (
	LoopedExperts  Experts = "eager"
	GroupedExperts Experts = "grouped_mm"
	BatchedExperts Experts = "batched_mm"
)

// Weight says how a tensor of the model is held.
type Weight struct {
	Format  dtype.Format
	Trained bool
	// Copied says that a trained copy stands beside the frozen weight, as peft
	// keeps modules_to_save.
	Copied bool
	// Packed says that it is kept in 4 bits and unpacked to Format for every use;
	// Nested that its scales are packed too.
	Packed, Nested bool
	// GPTQ says that it is packed as GPTQ packs, in place of that; nil where it is not.
	GPTQ *GPTQ
	// Absent says that its bytes come and go with the part that it belongs to.
	Absent bool
}

// Outside is the part of a model that is no layer: embeddings, the last norm, the
// head. Entry is the embeddings, where they are a part of their own.
const (
	Outside = -1
	Entry   = -2
)

// Around is told when a part of the model begins and ends in a forward pass, with
// what goes into it and comes out: weights that are divided between ranks come
// and go with the parts. A part is a layer by its index, or Outside, which begins
// before all layers and ends after them; it is given nothing to begin with. Beside Entry
// it begins after the layers.
type Around interface {
	Before(part int, in torch.Tensor)
	After(part int, out torch.Tensor)
}

// Options say how a model is run.
type Options struct {
	Attention     Attention
	Experts       Experts
	CPU           bool  // it runs on a CPU, whose fused attention takes less
	Training      bool  // dropout is on
	Checkpointing bool  // each layer is computed again in backward
	Segment       int   // or so many at once; 0 is one
	Chooses       bool  // or all of a layer but what the software chooses to keep
	Compiles      bool  // torch.compile, in the way of software that compiles each layer by itself
	EagerLoss     bool  // it leaves the loss alone
	Breaks        bool  // layers have hooks that end what torch.compile makes one graph of
	FP8           bool  // products read copies of their operands in 8 bits
	Async         bool  // ranks exchange beside the products of compiled blocks, through symmetric memory
	Reentrant     bool  // by the older of PyTorch's two ways
	InputGrads    bool  // embeddings want a gradient, as peft asks with checkpointing
	Reference     bool  // scans run without kernels of other packages (mamba-ssm, causal-conv1d)
	Cache         bool  // keys and values are kept for later positions, as generation and seq2seq training do
	Keep          int64 // positions whose logits are computed; 0 for all
	Padded        bool  // the batch has a mask of padding
	// Software is whose modules and loop these are, at which Release; the newest
	// transformers where nothing is said, and [Recorded] says of which others there
	// are programs. Loss is of software whose loop has a choice.
	Software Software
	Release  Release
	Loss     Loss
	// Objective is the loss of a trainer of TRL; nil for the class's own.
	Objective *Objective
	// BeforeLoss is called when the logits are there and their loss is not; nil for
	// nothing.
	BeforeLoss func()
	// TensorParallel is how many ranks divide each layer between them, in the way of software
	// that does, and the model is one rank's; 0 for one.
	TensorParallel int64
	// Stage says that the model is a stage's of a pipeline, which runs its [Piece]s.
	Stage bool
	// Around is told of the parts; nil for nobody.
	Around Around
	// Weight says how each tensor is held; nil: in the model's own format, all
	// trained or none.
	Weight func(model.Tensor) Weight
	// Adapter says which weights have a low-rank adapter; nil for none.
	Adapter func(model.Tensor) (Adapter, bool)
}

// Parameter is a weight that a machine holds.
type Parameter struct {
	torch.Tensor
	Of      []int // indices into the model's tensors; none for an adapter's
	Trained bool
	Part    int // the layer that it belongs to, or Outside
}

// Net is a model on a machine.
type Net struct {
	m           *torch.Machine
	model       *model.Model
	o           Options
	parameters  []Parameter
	packed4     []Parameter     // the packed words of weights in 4 bits
	inPlace     []*torch.Packed // weights that were made on the card and packed there
	stacks      []stack
	across      bool           // see Crosses
	reads       int            // the stack that reads words
	outside     weights        // tensors outside every stack
	cache       []torch.Tensor // keys and values of the pass that runs
	frequencies torch.Tensor   // of rotary positions
	rotary      int64          // elements per head that they turn
	places      torch.Tensor   // positions, of an encoder of text
	tokenKinds  torch.Tensor   // kinds of token
	turns       torch.Tensor   // a table of what they turn by, of software that keeps one
	loop        loop
	blocksFrom  int             // [Net.BlocksFrom]
	why         string          // what of an adapter has no program
	scored      string          // why attention made its scores though fused kernels were asked for
	besides     []torch.Tensor  // see Beside
	beyond      []int           // by tensor, the tower around whose layers it stands; −1 for none
	off         bool            // adapters are switched off
	hides       bool            // the pass returns the hidden states of all layers,
	hidden      []torch.Tensor  // which these are
	encodes     bool            // the pass returns the encoder's last hidden state,
	encoding    torch.Tensor    // which this is
	later       map[change]bool // what modules of the release do not do yet
	turnings    []turning       // rotary tables that layers keep, of releases that keep them
	allPairs    torch.Tensor    // the mask over all positions, of a release that keeps one
}

// Scored says why attention made its scores though fused kernels were asked for,
// once the net has run; empty where it made none.
func (n *Net) Scored() string { return n.scored }

// stack is the layers of one stack, and what belongs to it.
type stack struct {
	model.Stack
	layers []layer
	own    weights
}

// layer is one layer and its weights.
type layer struct {
	model.Layer
	weights
	transposed bool // linear layers are stored [in, out]
}

// New puts a model's weights on a machine, in the order of its tensors.
func New(m *torch.Machine, source *model.Model, o Options) *Net {
	if o.Software == LitGPT {
		source = joinsQKV(source)
	}
	if Sinks(source) {
		o.Attention = Eager // the class has no other
	}
	n := &Net{m: m, model: source, o: o, outside: weights{}}
	if o.Software == Transformers && o.Release != (Release{}) {
		n.later = changesAfter(source.Type, o.Release)
	}
	if n.olderThan(fusedScores) && o.Attention == SDPA {
		n.o.Attention = Eager
		n.scored = fmt.Sprintf("the class has no fused attention in transformers %d.%d", o.Release.Major, o.Release.Minor)
	}
	for _, s := range source.Stacks {
		own := stack{Stack: s, own: weights{}}
		for _, l := range s.Layers {
			own.layers = append(own.layers, layer{Layer: l, weights: weights{}})
		}
		n.stacks = append(n.stacks, own)
	}
	n.reads = max(0, slices.IndexFunc(source.Stacks, func(s model.Stack) bool { return s.Kind == model.Decoder }))
	n.across = Crosses(source)
	n.beyond = n.towers()
	n.o.Reentrant = o.Reentrant || n.qwen() // it says nothing of it, in no release
	drop := n.firstLayer()
	n.place()
	drop()
	if (n.Hears() || n.relative()) && !n.recomputes() {
		n.o.Cache = true // which the class makes unless it is told not to; T5's decoder has a configuration of its own, which Trainer does not reach
	}
	n.loadPacked()
	for index, s := range n.stacks {
		turned := source.StoresTransposed(int32(index))
		for i := range s.layers {
			s.layers[i].transposed = turned
		}
	}
	n.buffers()
	return n
}

// loadPacked is how a checkpoint goes into weights that were packed on the card.
func (n *Net) loadPacked() {
	if n.o.Software == Torchtune {
		n.loadNF4()
		return
	}
	n.packedAgain()
}

// keep gives keys and values to the cache of the pass, which copies them behind
// what it holds (DynamicLayer.update), or holds the first themselves
// (DynamicCache.update of
// https://github.com/huggingface/transformers/blob/v4.55.4/src/transformers/cache_utils.py).
func (n *Net) keep(f *torch.Frame, k, v *torch.Tensor) {
	m := n.m
	switch {
	case !n.o.Cache:
		return
	case n.olderThan(copiedCache):
		n.cache = append(n.cache, m.AsCache(m.Hold(*k)), m.AsCache(m.Hold(*v)))
		return
	}
	keys, values := m.AsCache(m.Cat(-2, *k)), m.AsCache(m.Cat(-2, *v))
	f.Set(k, keys)
	f.Set(v, values)
	n.cache = append(n.cache, m.Keep(*k), m.Keep(*v))
}

// DropCache ends the cache of the last pass.
func (n *Net) DropCache() {
	n.m.Drop(n.cache...)
	n.cache = nil
}

// Parameters are the weights in the order in which an optimizer meets them.
func (n *Net) Parameters() []Parameter { return n.parameters }

// language is the stack that reads words.
func (n *Net) language() stack {
	if n.reads >= len(n.stacks) {
		return stack{}
	}
	return n.stacks[n.reads]
}

// sees reports a decoder beside towers of pictures or of sound.
func (n *Net) sees() bool {
	return !n.crosses() && n.language().Kind == model.Decoder && slices.ContainsFunc(n.stacks, func(s stack) bool { return tower(s.Kind) })
}

func tower(k model.StackKind) bool { return k == model.Vision || k == model.Audio }

// TellsParts reports a program that tells [Around] of its parts: a decoder of
// transformers, torchtune or torchtitan.
func (n *Net) TellsParts() bool {
	return n.o.Software != LitGPT && !n.relative() && !n.vision() && !n.encodesText() && !n.sees() && !n.crosses()
}

// LoadsItself reports a program that says how its weights come to the device: the
// model is made there, and a checkpoint in main memory is copied into it.
func (n *Net) LoadsItself() bool { return n.o.Software == Torchtune }

// PackedWeights are the words of weights in 4 bits, which no optimizer meets.
func (n *Net) PackedWeights() []Parameter { return n.packed4 }

// buffers are the tensors that classes register beside their weights.
func (n *Net) buffers() {
	for _, s := range n.stacks {
		if tower(s.Kind) && len(n.stacks) > 1 {
			continue
		}
		for _, l := range s.layers {
			n.rotary = max(n.rotary, rotaryDim(l.Layer))
		}
	}
	switch n.o.Software {
	case Torchtune:
		n.torchtuneBuffers()
		return
	case LitGPT, TorchTitan:
		return // made when the length is known
	}
	n.rotaryBuffers()
	if n.olderThan(madeMask) && !n.olderThan(bufferedMask) {
		n.allPairs = n.m.Buffer(dtype.Bool, int64(n.model.MaxPosition), int64(n.model.MaxPosition))
	}
	n.encoderBuffers()
}

// rotaryDim is how many elements per head a layer's rotary positions turn.
func rotaryDim(l model.Layer) int64 {
	for _, x := range l.Mixers {
		switch a := x.(type) {
		case model.Attention:
			return int64(a.RotaryDim)
		case model.LatentAttention:
			return int64(a.RopeDim)
		}
	}
	return 0
}
