package workload

import (
	"fmt"
	"strconv"
	"strings"

	"floodmark/dtype"
)

// Megatron is what Megatron-LM was told beside what other software knows too. A
// zero value is its default; nil pointers are where that is not "no"
// (https://github.com/NVIDIA/Megatron-LM/blob/d98e8a64ddf34856e74b24714e3bedb2f5a39553/megatron/training/arguments.py).
type Megatron struct {
	// Implementation of the layers: TransformerEngine where nobody said, or Local.
	Implementation MegatronLayers
	// Unfused are the fusions that were switched off.
	Unfused []MegatronFusion
	// WideSoftmax says that scores are softmaxed in 32 bits where no kernel does it
	// (--attention-softmax-in-fp32).
	WideSoftmax bool
	// PrecisionAware says that the optimizer reads gradients in their own format
	// (--use-precision-aware-optimizer).
	PrecisionAware bool
	// Attention is the kernels of attention (--attention-backend).
	Attention MegatronAttention
	// HiddenDropout and AttentionDropout say that there is any; nil is 0.1.
	HiddenDropout, AttentionDropout *bool
	// AccumulationFusion says that gradients of weights are added to their buffer
	// by the product that makes them; nil is yes.
	AccumulationFusion *bool
	// InputRegather says that adapters keep what their rank has of an input that
	// sequence parallelism divides, and gather it again in backward
	// (sequence_parallel_input_regather of Megatron-Bridge's LoRA).
	InputRegather bool
	// CrossEntropy is how the loss is computed: unfused where nobody said.
	CrossEntropy MegatronLoss
	// WideLoss says that TransformerEngine's loss keeps its gradient in 32 bits, as
	// it does since 2.18.
	WideLoss bool
	// LoaderMask says that the data loader makes a mask of attention; nil is yes.
	LoaderMask *bool
	// CublasWorkspace is the bytes of CUBLAS_WORKSPACE_CONFIG; 0 for cuBLAS' own.
	CublasWorkspace int64
	// VocabularyMultiple is --make-vocab-size-divisible-by; 0 is 128.
	VocabularyMultiple int64
	// FirstLayers and LastLayers are the layers of the first and the last stage; 0
	// where all have as many.
	FirstLayers, LastLayers int64
	// CountEmbedding and CountLoss say that the embedding and the loss count as a layer
	// when layers are divided over stages.
	CountEmbedding, CountLoss bool
	// Layout is --pipeline-model-parallel-layout, as it is written.
	Layout string
	// ExpertTensor is the ranks that divide each expert; 0 is tensor parallelism.
	ExpertTensor int
	GroupedGEMM  bool // experts in one product
	// PermuteFusion says that TransformerEngine's kernels bring positions to experts.
	PermuteFusion bool
	RouterFormat  dtype.Format // Unknown for that of the computation
	// Capacity is the capacity factor of experts, Padded that they are filled up to
	// it; 0 for none.
	Capacity float64
	Padded   bool
	// Dispatcher is how positions come to their experts: allgather where nobody said.
	Dispatcher MegatronDispatcher
	// Imbalance is the tokens of the fullest rank over their mean: 1 is balance, 0
	// where nobody said.
	Imbalance float64
	// OptimizerInstances is the groups of data-parallel ranks that each hold the
	// optimizer's states once; 0 is one.
	OptimizerInstances int64
	// Deterministic says that every kernel gives the same result each time
	// (--deterministic-mode, NVTE_ALLOW_NONDETERMINISTIC_ALGO=0).
	Deterministic bool
	// MicroBatchGroup is the micro-batches that an interleaved schedule runs through
	// one piece of a stage before the next; 0 is as many as there are stages.
	MicroBatchGroup int64
	// OffloadModules is --offload-modules, the modules whose saved tensors move to main
	// memory, and OffloadLeast the elements of a tensor from which on they do; 0 is
	// 1,048,576.
	OffloadModules []string
	OffloadLeast   int64
	// ContextExchange is --cp-comm-type: p2p where nobody said, a2a, allgather.
	ContextExchange string

	// Quantisation is how products of layers are computed in 8 bits (--fp8-recipe);
	// empty where they are not.
	Quantisation MegatronQuantisation
	// QuantisedParameters says that their weights are kept in 8 bits
	// (--fp8-param-gather), UncachedWeights that else every run makes their copies again
	// (disable_parameter_transpose_cache).
	QuantisedParameters, UncachedWeights bool
	// WideAtStart and WideAtEnd are the layers that stay in 16 bits
	// (--first-last-layers-bf16).
	WideAtStart, WideAtEnd int64
	// AmaxHistory is --fp8-amax-history-len; 0 is 1.
	AmaxHistory int64
	// RouterFills says that the router fills up the rows of experts to what products in
	// 8 bits take (--moe-router-padding-for-quantization), which are copied else.
	RouterFills bool
	// Userbuffers says that products run while ranks of tensor parallelism exchange their
	// parts (--tp-comm-overlap).
	Userbuffers bool
	// Graphs is the modules of layers that CUDA graphs run, by TransformerEngine
	// (--cuda-graph-modules): attn, mlp, moe, moe_router, moe_preprocess; empty for none.
	// GraphWarmup is the steps before they are captured; nil is 3.
	Graphs      []string
	GraphWarmup *int64
}

// MegatronLayers is whose modules the layers are.
type MegatronLayers string

// MegatronAttention is whose kernels attention runs in.
type MegatronAttention string

// MegatronDispatcher is how positions come to their experts and back.
type MegatronDispatcher string

// MegatronQuantisation is a recipe of TransformerEngine's for products in 8 bits.
type MegatronQuantisation string

// MegatronFusion is operators that a kernel computes at once.
type MegatronFusion string

// MegatronLoss is how cross entropy is computed.
type MegatronLoss string

const (
	TransformerEngine MegatronLayers = "transformer_engine"
	LocalLayers       MegatronLayers = "local"

	AutoAttention    MegatronAttention = "auto"
	FlashKernels     MegatronAttention = "flash" // the package flash-attn
	FusedKernels     MegatronAttention = "fused" // cuDNN
	UnfusedAttention MegatronAttention = "unfused"

	MaskedSoftmaxFusion  MegatronFusion = "masked_softmax"
	BiasActivationFusion MegatronFusion = "bias_activation"
	BiasDropoutFusion    MegatronFusion = "bias_dropout"
	RopeFusion           MegatronFusion = "rope" // of positions that heads are given

	AllGather MegatronDispatcher = "allgather" // every rank reads all positions
	AllToAll  MegatronDispatcher = "alltoall"  // each gets those of its experts

	UnfusedLoss     MegatronLoss = "unfused"
	NativeFusedLoss MegatronLoss = "native"
	TEFusedLoss     MegatronLoss = "te"

	DelayedScaling MegatronQuantisation = "delayed"    // a scale a tensor, of earlier steps
	CurrentScaling MegatronQuantisation = "tensorwise" // a scale a tensor, of itself
	BlockScaling   MegatronQuantisation = "blockwise"  // a scale for 128 elements, of weights for 128 × 128
	MXScaling      MegatronQuantisation = "mxfp8"      // a scale for 32 elements
)

type megatronYAML struct {
	Implementation     string  `yaml:"implementation"`
	Attention          string  `yaml:"attention"`
	HiddenDropout      *bool   `yaml:"hidden_dropout"`
	AttentionDropout   *bool   `yaml:"attention_dropout"`
	AccumulationFusion *bool   `yaml:"gradient_accumulation_fusion"`
	InputRegather      bool    `yaml:"input_regather"`
	CrossEntropy       string  `yaml:"cross_entropy"`
	WideLoss           bool    `yaml:"wide_loss"`
	LoaderMask         *bool   `yaml:"attention_mask_in_dataloader"`
	CublasWorkspace    string  `yaml:"cublas_workspace_config"`
	VocabularyMultiple whole   `yaml:"vocabulary_multiple"`
	FirstLayers        whole   `yaml:"first_stage_layers"`
	LastLayers         whole   `yaml:"last_stage_layers"`
	CountEmbedding     bool    `yaml:"embedding_counts_as_layer"`
	CountLoss          bool    `yaml:"loss_counts_as_layer"`
	Layout             string  `yaml:"pipeline_layout"`
	ExpertTensor       whole   `yaml:"expert_tensor_parallel"`
	GroupedGEMM        bool    `yaml:"grouped_gemm"`
	PermuteFusion      bool    `yaml:"permute_fusion"`
	RouterFormat       string  `yaml:"router_format"`
	Capacity           float64 `yaml:"capacity_factor"`
	Padded             bool    `yaml:"pad_to_capacity"`
	Dispatcher         string  `yaml:"dispatcher"`
	Imbalance          float64 `yaml:"imbalance"`
	OptimizerInstances whole   `yaml:"optimizer_instances"`
	Deterministic      bool    `yaml:"deterministic"`
	MicroBatchGroup    whole   `yaml:"micro_batch_group"`
	ContextExchange    string  `yaml:"context_exchange"`

	OffloadModules []string `yaml:"offload_modules"`
	OffloadLeast   whole    `yaml:"offload_least_elements"`

	Quantisation        string `yaml:"quantisation"`
	QuantisedParameters bool   `yaml:"quantised_parameters"`
	UncachedWeights     bool   `yaml:"uncached_weights"`
	WideAtStart         whole  `yaml:"wide_layers_at_start"`
	WideAtEnd           whole  `yaml:"wide_layers_at_end"`
	AmaxHistory         whole  `yaml:"amax_history"`
	RouterFills         bool   `yaml:"router_fills"`
	Userbuffers         bool   `yaml:"userbuffers"`

	Graphs      []string `yaml:"cuda_graphs"`
	GraphWarmup *whole   `yaml:"cuda_graph_warmup_steps"`

	Unfused     []string `yaml:"unfused"`
	WideSoftmax bool     `yaml:"softmax_in_fp32"`

	PrecisionAware bool `yaml:"precision_aware_optimizer"`
}

// megatron checks what only Megatron-LM is told.
func (c *checker) megatron(d megatronYAML) *Megatron {
	const field = "training.megatron."
	m := &Megatron{
		Implementation:     choose(c, field+"implementation", MegatronLayers(d.Implementation), []MegatronLayers{TransformerEngine, LocalLayers}),
		Attention:          choose(c, field+"attention", MegatronAttention(d.Attention), []MegatronAttention{AutoAttention, FlashKernels, FusedKernels, UnfusedAttention}),
		CrossEntropy:       choose(c, field+"cross_entropy", MegatronLoss(d.CrossEntropy), []MegatronLoss{UnfusedLoss, NativeFusedLoss, TEFusedLoss}),
		WideLoss:           d.WideLoss,
		WideSoftmax:        d.WideSoftmax,
		PrecisionAware:     d.PrecisionAware,
		HiddenDropout:      d.HiddenDropout,
		AttentionDropout:   d.AttentionDropout,
		AccumulationFusion: d.AccumulationFusion,
		InputRegather:      d.InputRegather,
		LoaderMask:         d.LoaderMask,
		VocabularyMultiple: c.upTo(field+"vocabulary_multiple", d.VocabularyMultiple, 1<<31),
		FirstLayers:        c.upTo(field+"first_stage_layers", d.FirstLayers, 1<<20),
		LastLayers:         c.upTo(field+"last_stage_layers", d.LastLayers, 1<<20),
		CountEmbedding:     d.CountEmbedding,
		CountLoss:          d.CountLoss,
		Layout:             d.Layout,
		ExpertTensor:       int(c.atLeast(field+"expert_tensor_parallel", d.ExpertTensor, 0)),
		GroupedGEMM:        d.GroupedGEMM,
		PermuteFusion:      d.PermuteFusion,
		RouterFormat:       c.format(field+"router_format", d.RouterFormat),
		Capacity:           d.Capacity,
		Padded:             d.Padded,
		Dispatcher:         choose(c, field+"dispatcher", MegatronDispatcher(d.Dispatcher), []MegatronDispatcher{AllGather, AllToAll}),
		Imbalance:          d.Imbalance,
		OptimizerInstances: c.atLeast(field+"optimizer_instances", d.OptimizerInstances, 0),
		Deterministic:      d.Deterministic,
		MicroBatchGroup:    c.atLeast(field+"micro_batch_group", d.MicroBatchGroup, 0),
		OffloadModules:     d.OffloadModules,
		OffloadLeast:       c.atLeast(field+"offload_least_elements", d.OffloadLeast, 0),
		ContextExchange:    choose(c, field+"context_exchange", d.ContextExchange, []string{"p2p", "a2a", "allgather"}),

		Quantisation:        choose(c, field+"quantisation", MegatronQuantisation(d.Quantisation), []MegatronQuantisation{DelayedScaling, CurrentScaling, BlockScaling, MXScaling}),
		QuantisedParameters: d.QuantisedParameters,
		UncachedWeights:     d.UncachedWeights,
		WideAtStart:         c.upTo(field+"wide_layers_at_start", d.WideAtStart, 1<<20),
		WideAtEnd:           c.upTo(field+"wide_layers_at_end", d.WideAtEnd, 1<<20),
		AmaxHistory:         c.atLeast(field+"amax_history", d.AmaxHistory, 0),
		RouterFills:         d.RouterFills,
		Userbuffers:         d.Userbuffers,
		Graphs:              d.Graphs,
		GraphWarmup:         (*int64)(d.GraphWarmup),
	}
	for _, name := range d.Unfused {
		m.Unfused = append(m.Unfused, choose(c, field+"unfused", MegatronFusion(name), []MegatronFusion{MaskedSoftmaxFusion, BiasActivationFusion, BiasDropoutFusion, RopeFusion}))
	}
	if d.GraphWarmup != nil {
		c.upTo(field+"cuda_graph_warmup_steps", *d.GraphWarmup, 1<<31)
	}
	var err error
	if m.Layout != "" {
		if _, err = PipelinePieces(m.Layout); err != nil {
			c.wrong(field+"pipeline_layout", "is %q, which %v", m.Layout, err)
		}
	}
	if m.CublasWorkspace, err = ParseCublasWorkspace(d.CublasWorkspace); err != nil {
		c.wrong(field+"cublas_workspace_config", "%v", err)
	}
	if !(d.Capacity >= 0 && d.Capacity <= 1e6) {
		c.wrong(field+"capacity_factor", "is %v, expected a factor of 0 or more", d.Capacity)
	}
	if d.Imbalance != 0 && !(d.Imbalance >= 1 && d.Imbalance <= 1e6) {
		c.wrong(field+"imbalance", "is %v, expected 1 or more", d.Imbalance)
	}
	return m
}

// MostExperts is how many experts Megatron-LM's layers are counted with, one by one: ten
// times what models have.
const MostExperts = 4096

// mostWorkspace bounds what a configuration of cuBLAS may ask for: 1 GiB.
const mostWorkspace = 1 << 30

// ParseCublasWorkspace is the bytes of a CUBLAS_WORKSPACE_CONFIG, pairs of KiB and
// a count: ":4096:8" is 33,554,432, ":16:8" is 131,072; 0 for an empty one
// (https://docs.nvidia.com/cuda/cublas/#results-reproducibility).
func ParseCublasWorkspace(text string) (int64, error) {
	wrong := fmt.Errorf("is %q, expected pairs of KiB and a count, as :4096:8", text)
	if text == "" {
		return 0, nil
	}
	parts := strings.Split(strings.TrimPrefix(text, ":"), ":")
	if len(parts)%2 != 0 {
		return 0, wrong
	}
	sum := int64(0)
	for i := 0; i < len(parts); i += 2 {
		size, err := strconv.ParseInt(parts[i], 10, 32)
		count, err2 := strconv.ParseInt(parts[i+1], 10, 32)
		if err != nil || err2 != nil || size < 0 || count < 0 || size > mostWorkspace>>10 || count > mostWorkspace {
			return 0, wrong
		}
		if sum += size << 10 * count; sum > mostWorkspace {
			return 0, wrong
		}
	}
	return sum, nil
}
