package model

// StackKind says what a stack of layers is for.
type StackKind string

const (
	Decoder   StackKind = "decoder"   // causal text
	Encoder   StackKind = "encoder"   // bidirectional text
	Vision    StackKind = "vision"    // a tower over image patches
	Audio     StackKind = "audio"     // a tower over audio frames
	Predictor StackKind = "predictor" // multi-token prediction heads (MTP, nextn), which engines load only for speculation
)

// Stack is a run of layers of one width.
type Stack struct {
	Name   string // "model.layers", as the checkpoint calls it
	Kind   StackKind
	Width  int // hidden size: elements of the residual stream per position
	Layers []Layer
	Manner Manner
}

// Layer is one block, in enough detail to run it as operators.
type Layer struct {
	Index       int
	Mixers      []Mixer     // usually one; cross-attention is a second
	FeedForward FeedForward // nil where there is none
	Norms       []Norm
	Residual    Residual
}

// Mixer is what moves information between positions. The set is closed: a
// kind of layer that is none of these is an Unknown of the model, never
// charged as full attention and never as zero.
type Mixer interface{ mixer() }

// Attention is MHA, GQA or MQA.
type Attention struct {
	QueryHeads, KVHeads int
	KeyDim, ValueDim    int // elements per head
	RotaryDim           int // elements per head that rotary position turns; 0 for none
	Window              int // positions that a sliding window keeps; 0 for all
	Chunk               int // positions of a chunk that attends only to itself; 0 for none
	Causal              bool
	Cross               bool // keys and values come from another stack
	CacheOf             int  // index of the layer whose KV cache this one reads; −1 for its own
	QKNorm              bool // query and key are normalised per head
	QKVBias, OutputBias bool
	Sinks               bool    // a learned logit per head takes part in the softmax
	OutputGate          bool    // the output is multiplied by a gate of the query's width
	SoftCap             float64 // attention logits are squashed to ±SoftCap; 0 for no
	RotaryCut           bool    // the class cuts heads into what it turns and a rest, even where nothing rests
	HeadsCopied         bool    // the class copies the heads of query, key and value, so that each lies together
	QueryScaled         bool    // the class scales the query itself, not the logits
	RotaryHalves        bool    // the class turns the halves of a head apart, by tables of half its width
}

// LatentAttention is multi-head latent attention (MLA): what is cached per
// position is one compressed vector of KVRank + RopeDim elements.
type LatentAttention struct {
	QueryHeads      int
	QueryRank       int // 0 where the query is not compressed
	KVRank          int
	NopeDim         int // elements per head without position
	RopeDim         int // elements per head with rotary position, shared by all heads in the key
	ValueDim        int
	QKVBias         bool
	Indexer         *Indexer
	CompressedEvery int // positions that one cached entry stands for; 0 or 1 for each its own
	Window          int // positions whose entries are kept as they are, beside compressed ones; 0 for all
}

// Indexer chooses the positions that sparse attention reads (DeepSeek-V3.2,
// GLM-5): it caches one key of KeyDim per position.
type Indexer struct {
	Heads, KeyDim, TopK int
}

// Mamba is a selective state-space mixer of version 1 or 2.
type Mamba struct {
	Version int
	Inner   int // width of the inner stream
	State   int // state size per channel
	Conv    int // kernel of the causal convolution
	Heads   int // version 2
	HeadDim int // version 2
	Groups  int // version 2
	Chunk   int // version 2: positions that are scanned together
	DTRank  int // version 1
}

// GatedDelta is the gated delta rule of linear attention (Qwen3-Next, KDA).
type GatedDelta struct {
	KeyHeads, ValueHeads int
	KeyDim, ValueDim     int
	Conv                 int
}

// LinearAttention keeps one KeyDim × ValueDim state a head (lightning
// attention, RWKV).
type LinearAttention struct {
	Heads, KeyDim, ValueDim int
	TokenShift              int // earlier positions kept whole, as RWKV does
}

// ShortConv is a gated causal convolution (LFM2).
type ShortConv struct {
	Width, Kernel int
}

func (Attention) mixer()       {}
func (LatentAttention) mixer() {}
func (Mamba) mixer()           {}
func (GatedDelta) mixer()      {}
func (LinearAttention) mixer() {}
func (ShortConv) mixer()       {}

// FeedForward is what a layer does to each position alone.
type FeedForward interface{ feedForward() }

// Dense is one feed-forward network.
type Dense struct {
	Width      int    // intermediate size
	Gated      bool   // gate and up (SwiGLU, GeGLU), else up alone
	Activation string // as the configuration names it: "silu"
	Bias       bool
}

// Experts is a mixture of experts.
type Experts struct {
	Count       int // routed experts
	Active      int // routed experts that one position uses
	Width       int // intermediate size of a routed expert
	Gated       bool
	Activation  string
	Bias        bool
	Shared      int // shared experts, which every position uses
	SharedWidth int // intermediate size of all shared experts together
	SharedGate  bool
	RouterBias  bool
	Clamped     bool // gate and up are clamped
	// Alternating says that gate and up alternate in one projection, that both are
	// clamped, and that shares are a softmax over the chosen experts alone.
	Alternating bool
	// Latent is the width to which the residual stream is projected before the
	// routed experts; 0 where they read it as it is.
	Latent int
}

func (Dense) feedForward()   {}
func (Experts) feedForward() {}

// NormKind is how a norm normalises.
type NormKind string

const (
	RMSNorm   NormKind = "rms"
	LayerNorm NormKind = "layer"
)

// Norm is one normalisation over the residual stream.
type Norm struct {
	Kind  NormKind
	Width int
	Bias  bool
	// Wide says that the weights multiply in 32 bits, before the result is cast back.
	Wide bool
	// Offset says that the weights are kept as their distance from one: the norm
	// multiplies by 1 + weight, in 32 bits throughout.
	Offset bool
}

// Residual is how a layer's parts are joined.
type Residual string

const (
	PreNorm  Residual = "pre_norm"  // x + f(norm(x))
	PostNorm Residual = "post_norm" // norm(x + f(x)); of RMS norms, as OLMo 2 has them, x + norm(f(x))
	Sandwich Residual = "sandwich"  // x + norm(f(norm(x)))
	Parallel Residual = "parallel"  // x + attention(norm(x)) + feedforward(norm(x))
)
