package workload

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"floodmark/dtype"
)

// Train is what training adds to a workload.
type Train struct {
	Optimizer Optimizer
	// Autocast is the format that torch.autocast computes in; Unknown for none.
	Autocast dtype.Format
	// Reset is what the loop does with gradients after a step.
	Reset         GradientReset
	Checkpointing Checkpointing
	// Reentrant says by which of PyTorch's two ways parts are computed again
	// (use_reentrant); nil for the software's own.
	Reentrant *bool
	// Attention is the implementation that the loader was asked for: "sdpa" where
	// nobody said, "eager", or "flash_attention_2", the package flash-attn.
	Attention string
	// KeepsOutputs says that the loop has a name for what a forward pass returned,
	// which then lives until the next one has returned: the logits, and the cache
	// that a model fills unless it is told not to. Trainer of transformers has none.
	KeepsOutputs bool
	// DropsOutputs says that the loop ends that name with the step.
	DropsOutputs bool
	// Packed says that sequences are packed into one another up to the context, with
	// positions of their own.
	Packed bool
	// Lengths is how long the sequences are; nil where all are as long as the context.
	Lengths *Lengths
	// Loss is how the loss is computed, of software that has a choice; empty for what
	// its configurations have.
	Loss         Loss
	Objective    *Objective // nil for the loss of the model's class
	Accumulation int64      // micro-batches of one step; 0 and 1 are one
	// InBackward says that each parameter is updated as soon as its gradient is
	// there, and its gradient freed (optimizer_in_backward).
	InBackward bool
	// HostOptimizer says that the optimizer steps in main memory, over copies of the
	// parameters there.
	HostOptimizer HostOptimizer
	Tuning        *Tuning // nil: every parameter is trained that is not frozen
	Frozen        *Frozen // nil: nothing is
	Evaluation    *EvaluationLoop
	Save          *Save
	Export        *ExportTo
	Resume        ResumeFrom // empty: the loader's own
	// Sharding is how data-parallel ranks divide the states; nil where nobody said
	// it.
	Sharding *Sharding
	Schedule Schedule // of a pipeline; empty where nobody said it
	// SequenceParallel divides what tensor-parallel ranks would each hold whole
	// along the positions (Megatron's).
	SequenceParallel bool
	Recompute        *Recompute // Megatron's; nil elsewhere
	Megatron         *Megatron  // what only Megatron-LM is told; nil for its defaults
}

// ComputeFormat is the format in which training computes: that of autocast, else
// the one that is declared, else that of the parameters, else the model's own.
func (w *Workload) ComputeFormat(own dtype.Format) dtype.Format {
	autocast := dtype.Unknown
	if w.Training != nil {
		autocast = w.Training.Autocast
	}
	for _, f := range []dtype.Format{autocast, w.Precision.Compute, w.Precision.Parameters} {
		if f != dtype.Unknown {
			return f
		}
	}
	return own
}

// Loss is how the loss of a step is computed.
type Loss string

const (
	PlainLoss   Loss = "plain"   // of all logits at once
	ChunkedLoss Loss = "chunked" // head and loss in parts of the sequence
	// GatheredLoss is of logits that tensor-parallel ranks gather first, where the
	// software would leave them divided (loss parallelism).
	GatheredLoss Loss = "gathered"
)

// HostOptimizer is what of an optimizer's work lies in main memory, as torchao's
// CPUOffloadOptimizer has it.
type HostOptimizer string

const (
	HostStates    HostOptimizer = "states"    // the optimizer's states
	HostGradients HostOptimizer = "gradients" // and each gradient, as soon as it is there
)

// GradientReset is what stands in a parameter's .grad between steps.
type GradientReset string

const (
	SetToNone GradientReset = "none" // freed: what PyTorch 2 does
	SetToZero GradientReset = "zero" // kept, filled with zeros
)

// Checkpointing is which activations are dropped and computed again.
type Checkpointing struct {
	Kind  CheckpointingKind
	Every int // layers of one segment; 1 where Kind is full
}

// CheckpointingKind says how activation checkpointing chooses.
type CheckpointingKind string

const (
	NoCheckpointing        CheckpointingKind = "none"
	FullCheckpointing      CheckpointingKind = "full"      // each layer is a segment
	SelectiveCheckpointing CheckpointingKind = "selective" // operators that the software chooses: the scores of attention, or of torchtitan all but some
	EveryCheckpointing     CheckpointingKind = "every"     // every n-th layer is a segment
)

// String is the kind as a file spells it.
func (c Checkpointing) String() string {
	switch c.Kind {
	case "":
		return string(NoCheckpointing)
	case EveryCheckpointing:
		return fmt.Sprintf("every %d", c.Every)
	}
	return string(c.Kind)
}

// Tuning is fine-tuning that leaves the base model frozen.
type Tuning struct {
	Kind    string // "lora" where nothing is said, dora, ia3, ln_tuning, oft, or another of PEFT's kinds
	Rank    int
	Targets []string // names of modules or their ends; "all-linear" alone for every linear layer but the head
	Saved   []string // modules_to_save: trained whole, as copies beside the frozen ones
	Format  dtype.Format
	// Base is how the frozen weights are stored, as model.WithFormat takes it:
	// "nf4", "nf4-double", "int8"; empty for the declared or stored format.
	Base string
	// Prepared says that prepare_model_for_kbit_training casts what is not packed
	// to 32 bits.
	Prepared bool
	Dropout  bool
	// Options are the sizes that the kind has beside a rank, as PEFT calls them
	// (n_frequency, block_size); what is not said has PEFT's default.
	Options map[string]int64
	// Feedforward is the modules whose input IA3 scales; none for the last layer of
	// each network.
	Feedforward []string
	// Modules is the adapter as it was counted on the model.
	Modules []TunedModule
}

// TunedModule is what an adapter adds to one module.
type TunedModule struct {
	Module string    // as the base model calls it
	Tensor int       // index of its weight among the model's tensors
	Saved  bool      // a copy of the module, in the module's own format
	Shapes [][]int64 // the tensors that are trained
	Frozen []FrozenTensor
	Once   bool // it stands beside the modules: a bank that they share, or a prompt
}

// FrozenTensor is what an adapter holds and does not train.
type FrozenTensor struct {
	Format dtype.Format
	Shape  []int64
}

// EvaluationLoop is how evaluation runs between steps of training.
type EvaluationLoop struct {
	Batch   int64 // sequences of one batch; 0 where nobody said it
	Batches int64
	Context int64 // positions of one sequence; 0 for the training's
	// KeepLogits says that the predictions of every batch are kept to the end.
	KeepLogits bool
	// AccumulationSteps is after how many batches what is kept moves to main
	// memory; 0 for never.
	AccumulationSteps int64
	Logits            dtype.Format // of predictions and of what is kept; Unknown where nobody said it
	// Chunk is the positions whose logits are made at once, for log-probabilities
	// alone; 0 for all of a batch.
	Chunk int64
	// Unlabelled says that batches come without labels, so that no loss is computed.
	Unlabelled bool
}

// Save is how a checkpoint is written.
type Save struct {
	// Copy is the format of a full copy of the parameters that is gathered on the
	// device; Unknown where tensors go to main memory one by one.
	Copy dtype.Format
	// On is the ranks that hold the whole copy, where ranks divide the parameters;
	// empty for all of them. With Offload it is put together in main memory, one
	// part of the model on the device at a time.
	On      SaveOn
	Offload bool
	// States says that the optimizer's states are put together too, where ranks divide
	// the parameters, when the copy of these has gone.
	States bool
}

// SaveOn is the ranks on which a full copy is gathered.
type SaveOn string

const (
	OnEveryRank SaveOn = "all"
	OnRankZero  SaveOn = "rank0"
	InParts     SaveOn = "parts" // no full copy: each rank saves what it holds
)

// ParseSaveOn reads "all", "rank0" or "parts", and behind a colon "host" where the copy is
// put together in main memory.
func ParseSaveOn(text string) (on SaveOn, offload bool, err error) {
	name, host, has := strings.Cut(text, ":")
	on = SaveOn(name)
	if on != OnEveryRank && on != OnRankZero && on != InParts || has && (host != "host" || on == InParts) {
		return on, false, fmt.Errorf("is %q, expected parts, all or rank0, the last two with :host where the copy is put together in main memory", text)
	}
	return on, has, nil
}

// ExportTo is the format into which the weights are brought on the device.
type ExportTo struct {
	Format dtype.Format
}

// ResumeFrom is where a checkpoint's optimizer state is loaded to first.
type ResumeFrom string

const (
	ResumeOnHost   ResumeFrom = "host"
	ResumeOnDevice ResumeFrom = "device"
	// ResumeWhole is a checkpoint that is read onto the device with its weights too,
	// as torch.load with map_location has it, beside the model that they are for.
	ResumeWhole ResumeFrom = "whole"
)

// Optimizer is what updates the parameters.
type Optimizer struct {
	Name           OptimizerName
	Bits           int  // 8 or 32 of bitsandbytes' optimizers; 0 for those of PyTorch and transformers
	Paged          bool // states in managed memory
	Momentum       bool // of SGD
	Implementation Implementation
	// Foreign is what an optimizer is called whose states are not known here; the
	// other fields are then of one that has none, which is the least.
	Foreign string
}

// ForeignOptimizer is an optimizer whose states are not known.
func ForeignOptimizer(name string) Optimizer {
	return Optimizer{Name: SGD, Implementation: Foreach, Foreign: name}
}

// OptimizerName is the rule of the update.
type OptimizerName string

const (
	AdamW     OptimizerName = "adamw"
	SGD       OptimizerName = "sgd"
	Adafactor OptimizerName = "adafactor"
	Lion      OptimizerName = "lion"
	Muon      OptimizerName = "muon"
	RMSprop   OptimizerName = "rmsprop"
	Adamax    OptimizerName = "adamax"
	NAdam     OptimizerName = "nadam"
)

// undescribed are optimizers that transformers' --optim knows and of whose states
// nothing is known here. Those that step inside backward are not among them: they
// keep no gradients either.
const undescribed = "ademamix ademamix_8bit paged_ademamix_32bit paged_ademamix_8bit galore_adamw galore_adamw_8bit galore_adafactor " +
	"apollo_adamw grokadamw stable_adamw schedule_free_adamw schedule_free_sgd schedule_free_radam rmsprop_bnb rmsprop_bnb_8bit rmsprop_bnb_32bit " +
	"adagrad adamw_anyprecision adamw_apex_fused adamw_torch_4bit adamw_torch_8bit"

// Fuses reports an optimizer of which PyTorch has one kernel beside [Optimizer.Lists].
func (o Optimizer) Fuses() bool { return o.Lists() && (o.Name == AdamW || o.Name == SGD) }

// Lists reports an optimizer of which PyTorch has lists of all parameters at once, and
// a loop.
func (o Optimizer) Lists() bool {
	switch o.Name {
	case AdamW, SGD, RMSprop, Adamax, NAdam:
		return o.Bits == 0 && o.Foreign == ""
	}
	return false
}

// Implementation is how PyTorch loops over parameters.
type Implementation string

const (
	Foreach Implementation = "foreach" // all parameters at once, in lists: PyTorch's default on a GPU
	Fused   Implementation = "fused"   // one kernel, no temporaries
	ForLoop Implementation = "for_loop"
)

// optimizers are the names that files and launchers use, those of transformers'
// --optim among them.
func optimizers() map[string]Optimizer {
	bnb := func(n OptimizerName, bits int, paged bool) Optimizer {
		return Optimizer{Name: n, Bits: bits, Paged: paged, Implementation: Fused}
	}
	all := map[string]Optimizer{
		"rmsprop": {Name: RMSprop}, "adamax": {Name: Adamax}, "nadam": {Name: NAdam},
		"adamw": {Name: AdamW}, "adamw_torch": {Name: AdamW}, "adamw_torch_fused": {Name: AdamW, Implementation: Fused},
		"adamw_bnb_8bit": bnb(AdamW, 8, false), "adamw_8bit": bnb(AdamW, 8, false), "adamw_32bit": bnb(AdamW, 32, false),
		"paged_adamw": bnb(AdamW, 32, true), "paged_adamw_32bit": bnb(AdamW, 32, true), "paged_adamw_8bit": bnb(AdamW, 8, true),
		"lion": bnb(Lion, 32, false), "lion_32bit": bnb(Lion, 32, false), "lion_8bit": bnb(Lion, 8, false),
		"paged_lion_32bit": bnb(Lion, 32, true), "paged_lion_8bit": bnb(Lion, 8, true),
		"sgd": {Name: SGD}, "sgd_momentum": {Name: SGD, Momentum: true},
		"adafactor": {Name: Adafactor, Implementation: ForLoop}, "muon": {Name: Muon, Implementation: ForLoop},
	}
	for name := range strings.FieldsSeq(undescribed) {
		all[name] = ForeignOptimizer(name)
	}
	return all
}

// Optimizers lists the names of optimizers.
func Optimizers() []string {
	var names []string
	for name := range optimizers() {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// ParseOptimizer finds an optimizer by its name, with the implementation that is
// asked for; empty for its own.
func ParseOptimizer(name, implementation string) (Optimizer, error) {
	o, ok := optimizers()[strings.ToLower(name)]
	if !ok {
		return o, fmt.Errorf("is %q, expected adamw, adamw_8bit, paged_adamw_8bit, adafactor, sgd, sgd_momentum, lion, muon, or another name of transformers' --optim", name)
	}
	switch i := Implementation(strings.ReplaceAll(implementation, "-", "_")); {
	case i == "":
	case i != Foreach && i != Fused && i != ForLoop:
		return o, fmt.Errorf("has the implementation %q, expected foreach, fused or for_loop", implementation)
	case o.Implementation != "" && o.Implementation != i && name != "adamw_torch_fused":
		return o, fmt.Errorf("is %q, which has no implementation but its own: foreach, fused and for_loop are PyTorch's, of adamw and sgd", name)
	case i == Fused && o.Lists() && !o.Fuses():
		return o, fmt.Errorf("is %q, of which PyTorch has foreach and for_loop alone", name)
	default:
		o.Implementation = i
	}
	return o, nil
}

// Moments is how many moments the optimizer keeps in a format that follows what
// it updates: it is for those that the format must be declared. Others choose
// their own.
func (o Optimizer) Moments() int {
	switch {
	case o.Bits != 0 || o.Name == Adafactor:
		return 0
	case o.Name == AdamW || o.Name == Adamax || o.Name == NAdam:
		return 2
	case o.Name == SGD && o.Momentum || o.Name == Muon || o.Name == RMSprop:
		return 1
	}
	return 0
}

// KeptBy forgets formats of moments that an optimizer does not take, which is put in
// the place of the one that they were declared for: it keeps moments of its own then,
// or those that follow from what it updates.
func (p *Precision) KeptBy(o Optimizer) {
	if o.Moments() == 0 || p.FirstMoment.None() || p.FirstMoment.Blockwise {
		p.FirstMoment, p.SecondMoment = StateFormat{}, StateFormat{}
	}
}

// Autocasts reports a format that torch.autocast computes in on a GPU
// (torch/amp/autocast_mode.py, __init__).
func Autocasts(f dtype.Format) bool { return f == dtype.BF16 || f == dtype.F16 }

// ParseCheckpointing reads "none", "full", "selective" or a number of layers.
func ParseCheckpointing(text string) (Checkpointing, error) {
	switch kind := CheckpointingKind(text); kind {
	case "", NoCheckpointing:
		return Checkpointing{Kind: NoCheckpointing}, nil
	case FullCheckpointing:
		return Checkpointing{Kind: kind, Every: 1}, nil
	case SelectiveCheckpointing:
		return Checkpointing{Kind: kind}, nil
	}
	n, err := strconv.Atoi(strings.TrimPrefix(text, "every "))
	if err != nil || n < 1 {
		return Checkpointing{}, fmt.Errorf("is %q, expected none, full, selective or every with a number of layers, as in every 2", text)
	}
	return Checkpointing{Kind: EveryCheckpointing, Every: n}, nil
}

// MaxRank bounds the rank of an adapter: more than any matrix has rows.
const MaxRank = 1 << 20

// The kinds of adapters.
const (
	LoRA     = "lora"
	DoRA     = "dora"
	IA3      = "ia3"       // a vector that scales an output, or the input of the last layer of a network
	LNTuning = "ln_tuning" // trained copies of norms
	OFT      = "oft"       // rotations of the input, in so many blocks as the rank says
	// AdaptionPrompt is LLaMA-Adapter: positions before those of the text, as many as
	// the rank says, to which a layer attends apart, and a gate for each head.
	AdaptionPrompt = "adaption_prompt"
	LoRAFA         = "lora_fa" // LoRA whose A is frozen
	MiCA           = "mica"    // LoRA whose B is frozen
)

// basic reports a kind of adapter that has no default of its own for what it trains;
// the others are PEFT's, which the reader of adapters counts.
func (t *Tuning) basic() bool {
	return t.Kind == "" || slices.Contains([]string{LoRA, DoRA, IA3, LNTuning, OFT, AdaptionPrompt}, t.Kind)
}

// ranked reports an adapter that has a rank.
func (t *Tuning) ranked() bool { return t.Kind != IA3 && t.Kind != LNTuning }

// Check refuses an adapter that does not say what it trains.
func (t *Tuning) Check() error {
	switch {
	case t.Rank > 0 && !t.ranked():
		return fmt.Errorf("is of the kind %s, which has no rank", t.Kind)
	case t.Rank > MaxRank:
		return fmt.Errorf("has rank %d, expected at most %d", t.Rank, MaxRank)
	case t.Rank < 1 && len(t.Saved) == 0 && t.ranked() && t.basic():
		return fmt.Errorf("does not say its rank")
	case len(t.Targets) == 0 && len(t.Saved) == 0 && t.basic() && t.Kind != AdaptionPrompt:
		return fmt.Errorf("does not say which modules it targets: name them (q_proj, v_proj), or all-linear")
	}
	return nil
}
