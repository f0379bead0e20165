package snapshot

import (
	"strings"

	"floodmark/timeline"
)

// mark is something that a frame says about the code that ran.
type mark uint8

const (
	noMark mark = iota

	// Activities: what the thread was doing. The innermost of a stack counts.
	forward
	loss
	backward
	optimizerStep
	zeroGrad
	loading // weights were made, read or moved

	// Purposes: what the memory is for, wherever in the stack they stand.
	accumulating // into .grad
	recomputing  // checkpointing
	workspace
	communicating
	sharding // a gathered copy of sharded weights
	caching  // keys and values
	feeding  // data loading
	capturing
	castCache // the end of autocast, which lets its casts go
)

// activity reports whether a mark says what the thread was doing.
func (m mark) activity() bool { return m >= forward && m <= loading }

// frameRule gives a mark to the frames that meet every condition which is not
// empty.
type frameRule struct {
	mark     mark
	function string // equal
	part     string // somewhere in the function
	file     string // somewhere in the path; "/" stands for the part before it too
}

// frameRules names code by PyTorch's, and by the libraries that are most often
// met in snapshots. The first rule of a kind that fits a frame counts, so the
// narrow ones stand first. Sources: the modules of that name in
// https://github.com/pytorch/pytorch/tree/v2.9.0 (torch/optim, torch/autograd,
// torch/csrc/autograd, torch/utils/checkpoint.py, torch/distributed,
// aten/src/ATen/cuda/CublasHandlePool.cpp),
// https://github.com/huggingface/transformers/tree/v4.56.0/src/transformers
// (cache_utils.py, loss, modeling_utils.py),
// https://github.com/vllm-project/vllm/tree/v0.8.5/vllm (worker/cache_engine.py,
// model_executor) and
// https://github.com/NVIDIA/Megatron-LM/tree/core_v0.12.0/megatron/core
// (optimizer, tensor_parallel/random.py).
func frameRules() []frameRule {
	return []frameRule{
		{mark: zeroGrad, function: "zero_grad"},
		{mark: optimizerStep, file: "torch/optim/"},
		{mark: optimizerStep, file: "apex/optimizers/"},
		{mark: optimizerStep, file: "bitsandbytes/optim/"},
		{mark: optimizerStep, file: "megatron/core/optimizer/"},
		{mark: optimizerStep, file: "deepspeed/ops/adam/"},
		{mark: optimizerStep, file: "/optim", function: "step"},
		{mark: optimizerStep, file: "/optim.py"},
		{mark: optimizerStep, file: "/optimizer.py"},
		{mark: optimizerStep, file: "/optimizers.py"},
		{mark: optimizerStep, file: "/adam"},
		{mark: optimizerStep, file: "/muon"},

		{mark: accumulating, part: "torch::autograd::AccumulateGrad::"},
		{mark: backward, part: "torch::autograd::Engine::evaluate_function("},
		{mark: backward, part: "torch::autograd::Engine::thread_main("},
		{mark: backward, part: "torch::autograd::Node::operator()("},
		{mark: backward, function: "backward"},
		{mark: backward, file: "torch/autograd/graph.py", function: "_engine_run_backward"},
		{mark: recomputing, file: "torch/utils/checkpoint.py"},
		{mark: recomputing, file: "megatron/core/tensor_parallel/random.py"},

		{mark: workspace, part: "at::cuda::getNewWorkspace("},
		{mark: workspace, part: "at::cuda::getCurrentCUDABlasHandle("},
		{mark: workspace, part: "at::cuda::getCUDABlasLtWorkspace"},
		{mark: sharding, part: "_alloc_padded_unsharded_flat_param"},
		{mark: sharding, part: "init_unsharded_param"},
		{mark: sharding, part: "alloc_all_gather_outputs"},
		// Wrappers in torch/distributed stand in every stack of a sharded model;
		// only what sends is communication.
		{mark: communicating, file: "torch/distributed/distributed_c10d.py"},
		{mark: communicating, file: "torch/distributed/_functional_collectives.py"},
		{mark: communicating, file: "torch/distributed/fsdp/_fully_shard/_fsdp_collectives.py"},
		{mark: communicating, part: "c10d::"},
		// Not every function that has a cache in its name makes it.
		{mark: caching, part: "allocate_kv_cache"},
		{mark: caching, part: "initialize_kv_cache_tensors"},
		{mark: caching, part: "init_kv_cache"},
		{mark: caching, part: "update_kv_cache"},
		{mark: caching, file: "/cache_utils"},
		{mark: caching, file: "/cache_engine.py"},
		{mark: caching, file: "/kv_cache"},
		{mark: feeding, file: "torch/utils/data/"},
		{mark: capturing, file: "torch/cuda/graphs.py"},
		{mark: capturing, file: "torch/_inductor/cudagraph_trees.py"},
		{mark: castCache, file: "torch/amp/autocast_mode.py", function: "__exit__"},

		{mark: loss, part: "cross_entropy"},
		{mark: loss, part: "nll_loss"},
		{mark: loss, function: "log_softmax"},
		{mark: loss, file: "torch/nn/modules/loss.py"},
		{mark: loss, file: "transformers/loss/"},
		{mark: loading, file: "torch/nn/modules/module.py", function: "_apply"},
		{mark: loading, file: "torch/nn/modules/module.py", function: "convert"},
		{mark: loading, part: "load_state_dict"},
		{mark: loading, part: "_load_state_dict_into"},
		{mark: loading, file: "torch/nn/parameter.py"},
		{mark: loading, file: "torch/nn/init.py"},
		{mark: loading, function: "create_weights"},
		{mark: loading, function: "weight_loader"},
		{mark: loading, function: "from_pretrained"},
		{mark: forward, function: "forward"},
		{mark: forward, file: "torch/nn/modules/module.py", function: "_call_impl"},
	}
}

// fits reports whether a frame meets a rule.
func (r frameRule) fits(function, file string) bool {
	return (r.function == "" || r.function == function) &&
		(r.part == "" || strings.Contains(function, r.part)) &&
		(r.file == "" || strings.Contains(file, r.file) || strings.HasPrefix(r.file, "/") && strings.HasPrefix(file, r.file[1:]))
}

// frameMarks is what one frame says: one activity and any purposes.
type frameMarks struct {
	activity mark
	purposes uint32 // bit m: mark m
	python   bool
	native   bool // C++ with a qualified name
}

func markFrame(rules []frameRule, function, file string) frameMarks {
	f := frameMarks{python: strings.HasSuffix(file, ".py")}
	f.native = !f.python && strings.Contains(function, "::")
	for _, r := range rules {
		switch {
		case !r.fits(function, file):
		case !r.mark.activity():
			f.purposes |= 1 << r.mark
		case f.activity == noMark:
			f.activity = r.mark
		}
	}
	return f
}

// stackMarks is what a whole stack says.
type stackMarks struct {
	activity mark   // of the innermost frame that has one
	seen     uint32 // bit m: mark m stands somewhere in the stack
	owner    uint32 // 1 + the innermost Python frame that tells stacks apart, an index into Stacks.Frames
}

func (s stackMarks) has(m mark) bool { return s.seen&(1<<m) != 0 }

// marks are the stacks of a snapshot, read once.
type marks struct {
	stacks []stackMarks
	// offPython: Python frames were recorded and C++ frames were not, and Python
	// called a backward. Autograd's threads run no Python, so what they do has
	// no stack.
	offPython bool
	methods   []uint32 // by frame: a number for its function and file
}

func markStacks(table *timeline.StackTable) marks {
	rules := frameRules()
	frames := make([]frameMarks, len(table.Frames))
	python, native := false, false
	for i := range frames {
		frames[i] = markFrame(rules, table.Function(uint32(i)), table.File(uint32(i)))
		python, native = python || frames[i].python, native || frames[i].native
	}
	m, called := marks{stacks: make([]stackMarks, table.Len()), methods: methodsOf(table)}, false
	shared := sharedMethods(table, m.methods)
	for k := range m.stacks {
		stack := table.Stack(uint32(k))
		m.stacks[k] = markStack(frames, stack)
		m.stacks[k].owner = ownerOf(frames, stack, func(frame uint32) bool { return shared[m.methods[frame]] })
		called = called || m.stacks[k].activity == backward
	}
	m.offPython = python && !native && called
	return m
}

// methodsOf numbers what frames run: two lines of one function have one number.
func methodsOf(table *timeline.StackTable) []uint32 {
	type method struct{ function, file string }
	numbers, methods := map[method]uint32{}, make([]uint32, len(table.Frames))
	for i := range methods {
		key := method{table.Function(uint32(i)), table.File(uint32(i))}
		number, known := numbers[key]
		if !known {
			number = uint32(len(numbers))
			numbers[key] = number
		}
		methods[i] = number
	}
	return methods
}

// sharedPercent is from how large a part of the stacks on, in percent, what they
// have in common says nothing of any one: the recording of stacks, the
// interpreter, the function that runs everything.
const sharedPercent = 90

// sharedMethods tells which methods nearly every stack has in it, whatever their
// names.
func sharedMethods(table *timeline.StackTable, methods []uint32) []bool {
	count, last, stacks := make([]int, len(methods)), make([]int, len(methods)), 0
	for k := range table.Len() {
		stack := table.Stack(uint32(k))
		if len(stack) > 0 {
			stacks++
		}
		for _, frame := range stack {
			if m := methods[frame]; last[m] != k+1 {
				last[m] = k + 1
				count[m]++
			}
		}
	}
	shared := make([]bool, len(methods))
	for m, n := range count {
		shared[m] = n > 0 && n*100 >= stacks*sharedPercent
	}
	return shared
}

// ownerOf is 1 + the innermost Python frame that is not shared; 0 without one.
func ownerOf(frames []frameMarks, stack []uint32, shared func(frame uint32) bool) uint32 {
	for _, i := range stack {
		if frames[i].python && !shared(i) {
			return i + 1
		}
	}
	return 0
}

func markStack(frames []frameMarks, stack []uint32) stackMarks {
	var s stackMarks
	for _, i := range stack {
		f := frames[i]
		s.seen |= f.purposes
		if f.activity != noMark {
			s.seen |= 1 << f.activity
			if s.activity == noMark {
				s.activity = f.activity
			}
		}
	}
	// What a backward calls is backward, whatever its name, unless it runs the
	// forward again.
	if s.has(backward) && (s.activity == loss || s.activity == forward) {
		if s.activity = backward; s.has(recomputing) {
			s.activity = forward
		}
	}
	return s
}

// of is what a stack says; nothing for NoStack.
func (m *marks) of(stack uint32) stackMarks {
	if int64(stack) >= int64(len(m.stacks)) {
		return stackMarks{}
	}
	return m.stacks[stack]
}
