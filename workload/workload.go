package workload

import (
	"cmp"
	"slices"

	"floodmark/account"
	"floodmark/dtype"
)

// Operation is what the workload does with the model.
type Operation string

const (
	Load       Operation = "load" // bring the weights to the device and stop
	Generation Operation = "generation"
	Training   Operation = "training"
	FineTuning Operation = "fine-tuning"
	Evaluation Operation = "evaluation"
	Export     Operation = "export"
)

// Dimension names a size that inputs have.
type Dimension string

const (
	Context    Dimension = "context"   // positions of one sequence before generation
	Generated  Dimension = "generated" // positions that generation adds to one sequence
	Sequences  Dimension = "sequences" // sequences present together
	Batch      Dimension = "batch"     // samples of one optimizer step on one data-parallel rank
	MicroBatch Dimension = "micro_batch"
	Images     Dimension = "images"
	Resolution Dimension = "resolution" // pixels along one side of an image
	// SharedPrefix is how many positions of the context all sequences share. It
	// is counted once, and only where it is declared.
	SharedPrefix Dimension = "shared_prefix"
	// EncoderLength is the positions that cross-attention reads.
	EncoderLength Dimension = "encoder_length"
)

// Dimensions lists every dimension.
func Dimensions() []Dimension {
	return []Dimension{Context, Generated, Sequences, Batch, MicroBatch, Images, Resolution, SharedPrefix, EncoderLength}
}

// Input is one class of inputs, such as typical, long or limit.
type Input struct {
	Name       string
	Dimensions map[Dimension]int64 // only what was declared
}

// Mesh is how many ranks divide the work, by kind of parallelism; 1 is none.
type Mesh struct {
	TensorParallel, PipelineParallel, DataParallel, ExpertParallel, ContextParallel int
}

// Single is one rank that holds everything.
func Single() Mesh { return Mesh{1, 1, 1, 1, 1} }

// Ranks is the number of ranks of the mesh. Expert parallelism reuses the
// ranks of the others.
func (m Mesh) Ranks() int {
	return max(1, m.TensorParallel) * max(1, m.PipelineParallel) * max(1, m.DataParallel) * max(1, m.ContextParallel)
}

// Precision is the declared format of each kind of tensor; Unknown where
// nobody declared it. "Mixed precision" alone declares none of them.
type Precision struct {
	// Layout is the name that the formats were read from. What it leaves out is
	// as PyTorch has it.
	Layout                                           string
	Parameters, Compute, Cache                       dtype.Format
	Gradients, MasterCopy, FirstMoment, SecondMoment StateFormat
}

// Policy is what happens to a request that would not fit.
type Policy string

const (
	Refuse  Policy = "refuse"
	Queue   Policy = "queue"
	Preempt Policy = "preempt" // and recompute: capacity is then no guarantee, and latency pays
)

// Serving is what a serving engine admits. Zero is "not declared".
type Serving struct {
	MaxRequests int64
	MaxLength   int64 // positions of one request, prompt and answer
	Policy      Policy
	// Budget is what the engine may take and how it spends it; nil leaves its
	// defaults.
	Budget *Budget
}

// Budget is the settings of an engine that fills a share of its card. Zero is
// the engine's default of its version.
type Budget struct {
	Utilization    float64 // share of the card, 0 to 1
	BatchedTokens  int64   // positions that one step works on
	Block          int64   // positions of one block of the cache
	CacheBytes     int64   // of the cache on each rank; the share does not count then
	Blocks         int64   // of the cache; what was profiled does not count then
	CaptureSizes   int64   // sizes of batch of which CUDA graphs are captured
	LargestGraph   int64   // the largest of them
	Eager          bool    // no CUDA graphs
	InProcess      bool    // the engine's class in a program, not its server: other defaults
	OneKind        bool    // windows are given the whole length (no hybrid cache manager)
	PrefixCaching  *bool
	ChargeGraphs   *bool  // estimated graphs come off the cache
	PackedLatent   bool   // compressed vectors in FP8 with scales of their own, the rotary part in 16 bits (fp8_ds_mla)
	DecodeContext  int    // ranks of tensor parallelism that share the positions (DCP)
	Speculative    int64  // tokens guessed in one step
	Drafter        string // a model beside that guesses; empty for none or the model's own layers
	AdapterSlots   int64  // adapters on the card at once; 0 for none
	AdapterRank    int64
	PromptLogprobs bool   // requests may ask for the probabilities of their prompts
	MediaItems     *int64 // images of one prompt; nil for the engine's default
	Quantise       string // the format to which 16-bit weights are brought while loading
}

// CacheKind is how the KV cache is held.
type CacheKind string

const (
	Dynamic   CacheKind = "dynamic"   // grows with the positions
	Static    CacheKind = "static"    // the declared length from the start
	Offloaded CacheKind = "offloaded" // in host memory, one layer at a time on the device
)

// CacheKinds lists every kind of cache.
func CacheKinds() []CacheKind { return []CacheKind{Dynamic, Static, Offloaded} }

// Feature is something that changes how bytes are held, by name, so that an
// engine that has not modelled it says so instead of ignoring it.
type Feature string

const (
	TorchCompile Feature = "torch_compile"
	FP8Compute   Feature = "fp8_compute"
	// FP8Gather is matrices that fully_shard gathers in 8 bits, beside fp8_compute
	// (enable_fsdp_float8_all_gather of torchao).
	FP8Gather Feature = "fp8_gather"
	// AsyncTensorParallel is tensor-parallel ranks that exchange beside their products,
	// through symmetric memory (torch._inductor.config._micro_pipeline_tp).
	AsyncTensorParallel Feature = "async_tensor_parallel"
	// EagerLoss is a loss that torch_compile leaves alone (compile.components of
	// torchtitan without loss).
	EagerLoss     Feature = "eager_loss"
	WeightOffload Feature = "weight_offload"
	CUDAGraphs    Feature = "cuda_graphs"
	// FlashAttention is attention in kernels that make no scores.
	FlashAttention Feature = "flash_attention"
	// NoFlashAttention is attention that makes the scores of all pairs of positions.
	NoFlashAttention Feature = "no_flash_attention"
	// RecurrentKernels is recurrent layers in kernels (mamba-ssm, causal-conv1d,
	// flash-linear-attention) and not in the reference code of their class.
	RecurrentKernels Feature = "recurrent_kernels"
	// ExpandableSegments is PyTorch's allocator in segments that grow
	// (PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True).
	ExpandableSegments Feature = "expandable_segments"
)

// Features lists every feature.
func Features() []Feature {
	return []Feature{TorchCompile, FP8Compute, FP8Gather, AsyncTensorParallel, EagerLoss, WeightOffload, CUDAGraphs, FlashAttention, NoFlashAttention, RecurrentKernels, ExpandableSegments}
}

// Adapter is one adapter beside the model.
type Adapter struct {
	Name       string
	Kind       string // "lora", "dora", "qlora"
	Rank       int
	Parameters int64
	// Bytes is what it takes beside the base model; unknown where its weight
	// file does not lie beside its configuration.
	Bytes account.Figure
}

// Engine names the software that runs the workload. A number that depends on
// it depends on its version.
type Engine struct {
	Name, Version string
	PyTorch       string // the release below it, where it bears on the number and is not the engine's own
}

// Torch is the release of PyTorch that is said: the one below the engine, or the
// engine's own where it is PyTorch's plain loop.
func (e Engine) Torch() string {
	switch e.Name {
	case "", "eager", "pytorch":
		return cmp.Or(e.PyTorch, e.Version)
	}
	return e.PyTorch
}

// Workload is the work whose memory is asked for.
type Workload struct {
	Operation Operation
	Inputs    []Input
	Resident  []Resident
	Mesh      Mesh
	Precision Precision
	Training  *Train // what training adds; nil elsewhere
	Serving   *Serving
	Adapters  []Adapter
	Engine    Engine
	Cache     CacheKind // empty for the engine's own
	Features  []Feature
	// Open is settings whose bearing on sizes is not modelled, each with why: over
	// them nothing is known to fit.
	Open []string
	// Lowering is those of Open that may leave a rank less of anything than is counted
	// (they divide, offload, pack), LoweringPasses those that may leave it less of what
	// passes alone (activations, temporaries): over them nothing is known not to fit.
	Lowering, LoweringPasses []string
	// Assumed is what nobody said and one value was counted for: over it nothing is
	// decided either way.
	Assumed []string
	Host    int64             // bytes of host memory that may be used; 0 when not declared
	Phases  []account.PhaseID // phases that the user declares; empty for those of the operation
}

// Dimension is the largest declared value of a dimension over the inputs, and
// whether any input declares it.
func (w *Workload) Dimension(d Dimension) (int64, bool) {
	var largest int64
	found := false
	for _, in := range w.Inputs {
		if v, ok := in.Dimensions[d]; ok {
			largest, found = max(largest, v), true
		}
	}
	return largest, found
}

// Modality is a kind of input beside text.
type Modality string

// Vision is images.
const Vision Modality = "vision"

// evaluates reports a dimension that the loop of an evaluation gives by itself.
func (w *Workload) evaluates(d Dimension) bool {
	if w.Operation != Evaluation || w.Training == nil || w.Training.Evaluation == nil {
		return false
	}
	e := w.Training.Evaluation
	return d == Batch && e.Batch > 0 || d == Context && e.Context > 0
}

// Missing lists the dimensions that the operation needs and no input declares.
// A model that takes more than text needs the dimensions of both: of images
// their number, 0 where there are none, and with any their resolution.
func (w *Workload) Missing(beside ...Modality) []Dimension {
	var need []Dimension
	switch w.Operation {
	case Generation:
		if w.Serving != nil && w.Serving.Budget != nil {
			return nil // an engine that fills a budget works at its own limits
		}
		need = []Dimension{Context, Generated, Sequences}
	case Training, FineTuning:
		need = []Dimension{Context, MicroBatch}
	case Evaluation:
		need = []Dimension{Context, Batch}
	}
	if slices.Contains(beside, Vision) && len(need) > 0 {
		need = append(need, Images)
	}
	if images, _ := w.Dimension(Images); images > 0 {
		need = append(need, Resolution)
	}
	var missing []Dimension
	for _, d := range need {
		if _, ok := w.Dimension(d); !ok && !w.evaluates(d) {
			missing = append(missing, d)
		}
	}
	return missing
}
