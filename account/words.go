package account

// Origin says how a figure was come by.
type Origin string

const (
	Calculated Origin = "calculated" // from shapes and formats, by a rule with a source
	Fitted     Origin = "fitted"     // by coefficients that name their data
	Observed   Origin = "observed"   // read from a counter, a trace or a log
	Assumed    Origin = "assumed"    // declared by somebody, or a default that is printed
)

// Scope says which bytes a counter counts. Scopes nest: requested and
// allocated are inside active, active inside reserved, reserved inside
// process, process inside device. They are never added to one another.
type Scope string

const (
	// Requested is what the program asked for, before any rounding; PyTorch's
	// requested_bytes, which counts a block until its free is completed.
	Requested Scope = "requested"
	// Allocated is the blocks that tensors hold, rounding included;
	// torch.cuda.memory_allocated.
	Allocated Scope = "allocated"
	// Active is allocated and the blocks whose free waits for a stream.
	Active Scope = "active"
	// Reserved is what the caching allocator holds from the driver;
	// torch.cuda.memory_reserved. It contains Allocated.
	Reserved Scope = "reserved"
	// Process is everything one process holds on a device.
	Process Scope = "process"
	// Device is everything in use on a device, whoever holds it.
	Device Scope = "device"
	// Host is main memory; it lies outside the nest.
	Host Scope = "host"
)

// Scopes lists the scopes from the innermost outwards, Host last.
func Scopes() []Scope {
	return []Scope{Requested, Allocated, Active, Reserved, Process, Device, Host}
}

// Category says what bytes are for.
type Category string

const (
	CategoryParameter            Category = "parameter"
	CategoryBuffer               Category = "buffer"
	CategoryGradient             Category = "gradient"
	CategoryMasterCopy           Category = "master_copy"
	CategoryOptimizerState       Category = "optimizer_state"
	CategoryQuantisationMetadata Category = "quantisation_metadata"
	CategoryActivation           Category = "activation"
	CategoryTemporary            Category = "temporary"
	CategoryLogits               Category = "logits"
	CategoryKVCache              Category = "kv_cache"
	CategoryRecurrentState       Category = "recurrent_state"
	CategoryCommunication        Category = "communication"
	CategoryWorkspace            Category = "workspace"
	CategoryInput                Category = "input"
	CategoryGraphPool            Category = "graph_pool"
	CategoryContext              Category = "context"
	CategoryAllocatorRounding    Category = "allocator_rounding"
	CategoryAllocatorCache       Category = "allocator_cache"
	CategoryOther                Category = "other"
	CategoryUnattributed         Category = "unattributed"
)

// Categories lists every category, in the order in which tables show them.
func Categories() []Category {
	return []Category{
		CategoryParameter, CategoryBuffer, CategoryGradient, CategoryMasterCopy, CategoryOptimizerState,
		CategoryQuantisationMetadata, CategoryActivation, CategoryTemporary, CategoryLogits, CategoryKVCache,
		CategoryRecurrentState, CategoryCommunication, CategoryWorkspace, CategoryInput, CategoryGraphPool, CategoryContext,
		CategoryAllocatorRounding, CategoryAllocatorCache, CategoryOther, CategoryUnattributed,
	}
}

// PhaseID names an interval of a run.
type PhaseID string

const (
	PhaseModelLoad      PhaseID = "model_load"
	PhaseTransfer       PhaseID = "transfer"
	PhaseInputs         PhaseID = "inputs"
	PhaseColdForward    PhaseID = "cold_forward"
	PhaseWarmup         PhaseID = "warmup"
	PhaseWarmForward    PhaseID = "warm_forward"
	PhaseForward        PhaseID = "forward"
	PhaseLoss           PhaseID = "loss"
	PhaseBackward       PhaseID = "backward"
	PhaseOptimizerStep  PhaseID = "optimizer_step"
	PhaseEvaluation     PhaseID = "evaluation"
	PhaseGenerate       PhaseID = "generate"
	PhasePrefill        PhaseID = "prefill"
	PhaseDecode         PhaseID = "decode"
	PhaseSave           PhaseID = "save"
	PhaseMerge          PhaseID = "merge"
	PhaseExport         PhaseID = "export"
	PhaseResume         PhaseID = "resume"
	PhaseProfileForward PhaseID = "profile_forward"
	PhaseProfileSampler PhaseID = "profile_sampler"
	PhaseKVAllocation   PhaseID = "kv_allocation"
	PhaseGraphCapture   PhaseID = "graph_capture"
	PhaseSamplerWarmup  PhaseID = "sampler_warmup"
	// PhaseRecorded is a trace without marks, or one moment that a text reports.
	PhaseRecorded PhaseID = "recorded"
)

// Phases lists every phase, in the order in which a job meets them.
func Phases() []PhaseID {
	return []PhaseID{
		PhaseModelLoad, PhaseTransfer, PhaseInputs, PhaseColdForward, PhaseWarmup, PhaseWarmForward, PhaseForward,
		PhaseLoss, PhaseBackward, PhaseOptimizerStep, PhaseEvaluation, PhaseGenerate, PhasePrefill, PhaseDecode,
		PhaseSave, PhaseMerge, PhaseExport, PhaseResume, PhaseProfileForward, PhaseProfileSampler,
		PhaseKVAllocation, PhaseGraphCapture, PhaseSamplerWarmup, PhaseRecorded,
	}
}

// TermID names what an account is made of. Two accounts are compared term by
// term, so an id means the same bytes wherever it stands.
type TermID string

const (
	TermWeights              TermID = "weights"
	TermBuffers              TermID = "buffers"
	TermQuantisationMetadata TermID = "quantisation_metadata"
	TermAdapters             TermID = "adapters"
	TermReserve              TermID = "reserve"
	TermGradients            TermID = "gradients"
	TermMasterCopy           TermID = "master_copy"
	TermOptimizerState       TermID = "optimizer_state"
	TermPagedState           TermID = "paged_optimizer_state"  // in managed memory
	TermLoadedState          TermID = "loaded_optimizer_state" // of a checkpoint, while it is taken over
	TermAutocastCache        TermID = "autocast_cache"
	TermKeptPredictions      TermID = "kept_predictions"
	TermKeptOnHost           TermID = "kept_predictions_on_host"
	TermGathered             TermID = "gathered_copy"
	TermActivations          TermID = "activations"
	TermTemporaries          TermID = "temporaries"
	TermLogits               TermID = "logits"
	TermKVCache              TermID = "kv_cache"
	TermRecurrentState       TermID = "recurrent_state"
	TermCommunication        TermID = "communication"
	TermGatheredParameters   TermID = "gathered_parameters"   // of other ranks, while they are used
	TermBuckets              TermID = "communication_buckets" // through which ranks exchange gradients and parameters
	TermSavedCopy            TermID = "saved_copy"            // of a checkpoint, in main memory
	TermSavedStates          TermID = "saved_states"          // of the optimizer, beside it
	TermOffloadedStates      TermID = "offloaded_states"      // in main memory
	TermOffloadedActivations TermID = "offloaded_activations" // the same
	TermWorkspace            TermID = "workspace"
	TermInput                TermID = "input"
	TermGraphPools           TermID = "graph_pools"
	TermContext              TermID = "context"
	TermAllocatorRounding    TermID = "allocator_rounding"
	TermAllocatorCache       TermID = "allocator_cache"
	TermOtherProcesses       TermID = "other_processes"
	TermResidentModels       TermID = "resident_models" // beside the one that works: a reference, a reward
	TermRolloutEngine        TermID = "rollout_engine"  // that generates for a training, on the same device
	TermUnattributed         TermID = "unattributed"
)
