package model

// Manner is what a stack's class does that no tensor tells, and that bears on
// what a forward pass allocates.
type Manner struct {
	ScaledEmbedding bool    // token embeddings are multiplied by a constant
	ScaledResidual  bool    // what joins the stream is multiplied by a constant
	ScaledLogits    bool    // the head's logits are
	LogitCap        float64 // the head's logits are squashed to ±LogitCap; 0 for no
	Alone           bool    // a class with towers runs the stack as if there were none, where it is given words alone
	Axes            Axes    // along which positions turn queries and keys
	LocalRotary     bool    // layers with a window turn by frequencies of their own
	ApartGate       bool    // the class holds gate and up apart where files hold them in one
	Dropout         Dropout
	Use             string // what the class is for, where it has heads of its own: "ForMaskedLM"
	Text            TextEncoder
	Pictures        PictureEncoder
}

// TimmVision is the type of timm's vision transformers, whose configurations name
// none of transformers' own.
const TimmVision = "timm_vit"

// PictureEncoder is how a class of timm reads pictures.
type PictureEncoder struct {
	Pool       string  // what the head reads: "token", the class token, or "avg", the mean of the patches
	PooledNorm bool    // the last norm stands behind that, over one position
	Apart      bool    // positions are of patches alone, and added before other tokens are put there
	DropPath   float64 // with which the last layer leaves out what it adds; from 0 in the first it rises evenly
}

// Axes is the axes of rotary positions: one, or three of time, height and width.
type Axes string

// The ways in which tables of three axes are put together.
const (
	SectionedAxes   Axes = "sectioned"   // runs of frequencies, each of its axis
	InterleavedAxes Axes = "interleaved" // one frequency of each axis after the other
)

// TextEncoder is how a class that encodes text joins its parts (BERT and its
// like).
type TextEncoder struct {
	SelfOutput   bool   // attention's projection is a module of its own, which drops, adds and normalises
	Counted      bool   // positions are counted over the tokens that are no padding
	Activation   string // of the dense layer through which a classifier of sequences reads the first position
	DropsPooled  bool   // what that layer reads is dropped too
	DropsAnswers bool   // what the head over answers reads is dropped
}

// Dropout is the probabilities with which training drops elements; 0 for none.
type Dropout struct {
	Embedding   float64 // of the token embeddings
	Residual    float64 // of what a mixer or a feed-forward network adds to the stream
	Attention   float64 // of the attention's scores
	FeedForward float64 // inside a feed-forward network, after its activation
	Head        float64 // of what a classifier reads
}
