package hfmodel

import (
	"strings"

	"floodmark/model"
)

// Spellings of the common sizes, over all families. A family whose key of one
// of these names means something else renames it in its row.
const (
	keyHidden    = "hidden_size|n_embd|d_model|n_embed|embed_dim|dim"
	keyLayers    = "num_hidden_layers|n_layer|n_layers|num_layers|depth"
	keyHeads     = "num_attention_heads|n_head|n_heads|num_heads|attention_heads"
	keyKVHeads   = "num_key_value_heads|num_kv_heads|n_head_kv|n_kv_heads"
	keyHeadDim   = "head_dim|kv_channels"
	keyFFN       = "intermediate_size|n_inner|ffn_hidden_size|ffn_dim|d_ff"
	keyVocab     = "vocab_size|padded_vocab_size"
	keyPositions = "max_position_embeddings|n_positions|seq_length|max_sequence_length|max_seq_len|n_ctx|model_max_length|max_target_positions|context_length"
	keyAct       = "hidden_act|hidden_activation|activation_function|activation|mlp_hidden_act|dense_act_fn"
	keyWindow    = "sliding_window|sliding_window_size"
	keyDType     = "torch_dtype|dtype"
)

// family is one row: everything by which one kind of model differs from
// another.
type family struct {
	types    string // values of model_type, apart by blanks
	classes  string // names of the architecture without For… or Model, apart by blanks
	when     flag   // the row holds only where this is on
	defaults string // what the class assumes for absent keys, "key=value" apart by blanks
	ignores  string // keys that change no size in this family, apart by blanks
	expects  string // keys that this row understands at one value only, "key=value" apart by blanks
	rename   map[string]string
	wrap     string   // before every name of a class that has a head, the head's aside
	unsaid   string   // what checkpoints hold that no configuration of the family tells
	converts string   // the format to which the class converts weights where the configuration declares none
	base     string   // what the names of a class with a head begin with, and those of the bare model do not
	stacks   []*stack // over the configuration itself
	parts    []*part  // over nested objects
	around   []*piece // modules between the parts, such as projectors
}

// part is a nested object that describes a model of its own.
type part struct {
	name   string // as expressions call it: "text", "vision"
	key    string // "text_config"
	prefix string // before the names of its tensors
	of     string // model_type where the object states none
	inline bool   // a configuration without the object has its keys at the top
	use    string // "" for the use of the whole model
	when   flag

	bare     bool   // its names leave out "model.", and the head stands at the top
	optional bool   // a model without the object has no such part
	fewer    int64  // layers at the end that the whole leaves out
	fixed    bool   // the object's own model_type says nothing
	built    bool   // the class builds the part without any object
	untied   bool   // the class around it stores the head even where it is tied
	defaults string // beside those of its family
	alone    bool   // the class runs it as if there were no towers, where it is given words alone
	axes     model.Axes
}

// stack is a run of layers as a row describes it, with what stands before and
// after. The zero value of each switch is what Llama does.
type stack struct {
	names       names
	slot        map[string]string // the names, once they are read
	kind        model.StackKind   // "" is a decoder
	rename      map[string]string // keys of this stack alone
	derive      map[string]string // keys that the configuration has not, as expressions of those that it has
	tied        bool              // what the class assumes when tie_word_embeddings is absent
	headBias    flag
	norm        model.NormKind // "" is an RMS norm
	normBias    flag
	norms       []choice       // other norms of a layer than the slot's, by a switch
	offset      bool           // norms multiply by one and their weight
	wide        bool           // norms multiply by their weight in 32 bits
	scaled      bool           // embeddings are multiplied by a constant
	localRotary bool           // layers with a window turn by frequencies of their own
	residual    model.Residual // "" is pre-norm
	text        model.TextEncoder
	apartGate   bool // the class cuts a fused gate and up in two while loading
	noRotary    bool
	conv1D      bool   // linear layers are stored [in, out], as GPT-2's
	sparseWord  string // what layer_types calls full attention over chosen positions
	usual       mixing // of layers of which the configuration says nothing; "" is full attention
	before      []*piece
	layer       []*piece // further tensors of every layer
	first       []*piece // further tensors of the first layer
	last        []*piece // further tensors of the last layer
	butLast     []*piece // and of every layer but the last
	after       []*piece
	heads       map[string][]*piece // by what the class is used for, instead of a head over the vocabulary
	repeated    string              // key: how many of the layers have weights, which the others use again
	notFor      string              // a use of the class that leaves the stack out
	vocabExtra  int64               // rows of the token embedding beyond the vocabulary
	chunks      bool                // layers with rotary positions attend within chunks
	crossing    bool                // some layers attend to another stack instead of their own
	shared      bool                // the token embedding is that of an earlier stack
	attn        attention
	latent      *latent
	mamba       *mambaRow
	delta       *deltaRow
	lightning   bool
	compressed  bool // attention over a window and compressed entries before it
	conv        bool // gated short convolutions
	blocks      bool // layers called hybrid run a block that they share
	ffn         dense
	experts     *experts
	predict     *predictor
}

// choice is a list of names that a switch chooses; the first that is on counts.
type choice struct {
	when  flag
	names string
}

// names is how a family calls its modules: "slot=name" apart by blanks, the
// later word wins. A slot without a name is one that the family has not.
type names string

func (n names) table() map[string]string { return fields(string(n)) }

// listed reports whether a blank-separated list has that word.
func listed(list, word string) bool {
	for w := range strings.FieldsSeq(list) {
		if w == word {
			return true
		}
	}
	return false
}

// stem cuts from an architecture what it is used for: "LlamaForCausalLM" is
// "Llama", with use "ForCausalLM".
func stem(architecture string) (name, use string) {
	if i := strings.Index(architecture, "For"); i > 0 {
		return architecture[:i], architecture[i:]
	}
	for _, use := range []string{"LMHeadModel", "EncoderModel", "RewardModel", "ChatModel", "DoubleHeadsModel", "Model"} {
		if name, ok := strings.CutSuffix(architecture, use); ok && name != "" {
			return name, use
		}
	}
	return architecture, ""
}

// familyOf finds the row of a model_type, else of an architecture. Where a
// configuration nests its text model but gives the whole the type of the text
// model alone, the architecture decides.
func familyOf(s section, modelType, architecture string) (family, bool) {
	name, _ := stem(architecture)
	nested := s.object.get("text_config") != nil
	rows := families()
	for _, f := range rows {
		if modelType != "" && listed(f.types, modelType) && s.fits(f) && (!nested || len(f.parts) > 0) {
			return f, true
		}
	}
	for _, f := range rows {
		if architecture != "" && listed(f.classes, name) && s.fits(f) && (!nested || len(f.parts) > 0) {
			return f, true
		}
	}
	return family{}, false
}

// classOf is a class without what it is used for: "Llama" of LlamaForCausalLM.
func classOf(architecture string) string {
	name, _ := stem(architecture)
	return name
}

// rowOf is the row of a type that another row names.
func rowOf(s section, modelType string) (family, bool) {
	for _, f := range families() {
		if listed(f.types, modelType) && s.fits(f) {
			return f, true
		}
	}
	return family{}, false
}

func (s section) fits(f family) bool { return f.when == "" || s.is(f.when) }

// classKnown reports whether some row builds that class.
func classKnown(architecture string) bool {
	name, _ := stem(architecture)
	for _, f := range families() {
		if listed(f.classes, name) || listed(f.classes, strings.TrimSuffix(name, "Text")) {
			return true
		}
	}
	return false
}
