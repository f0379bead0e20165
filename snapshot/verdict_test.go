package snapshot

import (
	"slices"
	"testing"

	"floodmark/account"
)

// step plays one training step around an allocation of interest.
func TestVerdictsOfAStep(t *testing.T) {
	p := newProgram()
	moment, gradient := p.resident(1, 4096)[0], p.resident(1, 4096)[0]
	kept := p.alloc(1000, "at::_ops::mul_Tensor::call(at::Tensor const&)", inModel, inCall, inMain)
	passing := p.alloc(1000, inSoftmax, inModel, inMain)
	p.free(passing, inModel, inMain)
	logits := p.alloc(5000, inLoss, inMain)
	handed := p.alloc(1000, inNode, inEngine)
	p.free(kept, inNode, inEngine)
	p.free(handed, inEngine)
	stored := p.alloc(4096, inAccumul, inEngine)
	stolen := p.alloc(512, "at::_ops::sum::call(at::Tensor const&)", inNode, inEngine)
	scratch := p.alloc(4096, inStep, inMain)
	p.free(scratch, inStep, inMain)
	fresh := p.alloc(4096, inStep, inMain)
	p.free(moment, inStep, inMain)
	p.free(gradient, inZeroGrad, inMain)
	p.free(logits, inMain)
	got := p.verdicts(moment, gradient, kept, passing, logits, handed, stored, stolen, scratch, fresh)
	want := []account.Category{
		account.CategoryOptimizerState, account.CategoryGradient, account.CategoryActivation, account.CategoryTemporary,
		account.CategoryLogits, account.CategoryTemporary, account.CategoryGradient, account.CategoryGradient,
		account.CategoryTemporary, account.CategoryOptimizerState,
	}
	if !slices.Equal(got, want) {
		t.Errorf("verdicts %v,\nwant     %v", got, want)
	}
}

// One kind of code each.
func TestVerdictsByPurpose(t *testing.T) {
	for _, c := range []struct {
		name   string
		frames []string
		want   account.Category
	}{
		{"a cache of keys and values inside a forward", []string{inCache, inModel, inMain}, account.CategoryKVCache},
		{"a data loader", []string{inLoader}, account.CategoryInput},
		{"weights gathered by FSDP", []string{inGather, inModel, inMain}, account.CategoryParameter},
		{"a collective", []string{inReduce, inEngine}, account.CategoryCommunication},
		{"a forward run again inside a backward", []string{inSoftmax, inModel, inCheckpt, inEngine}, account.CategoryActivation},
		{"a graph under capture", []string{inSoftmax, inModel, inCapture}, account.CategoryGraphPool},
		{"a workspace of cuBLAS", []string{inWorkspace, inModel, inMain}, account.CategoryWorkspace},
		{"a module on its way to the device", []string{inTo, inMain}, account.CategoryParameter},
		{"the backward of the loss", []string{inLoss, inEngine}, account.CategoryTemporary},
		{"a forward under FSDP", []string{inModel, inCall, "forward site-packages/torch/distributed/fsdp/fully_sharded_data_parallel.py:800", inMain}, account.CategoryActivation},
		{"a forward that reads a cache", []string{inSoftmax, inModel, "forward_with_kv_cache project/model.py:7", inMain}, account.CategoryActivation},
		{"gradients in buckets of DDP", []string{"c10d::Reducer::initialize_buckets(std::vector<std::vector<unsigned long>>&&)", inMain}, account.CategoryCommunication},
		{"the pool of vLLM's cache", []string{"_allocate_kv_cache site-packages/vllm/worker/cache_engine.py:83", inMain}, account.CategoryKVCache},
		{"code that says nothing", []string{inUser, inMain}, account.CategoryUnattributed},
		{"no frames", nil, account.CategoryUnattributed},
	} {
		p := newProgram()
		a := p.alloc(1<<20, c.frames...)
		if got := p.verdicts(a); got[0] != c.want {
			t.Errorf("%s is %s, want %s", c.name, got[0], c.want)
		}
	}
}

func TestVerdictByAnnotation(t *testing.T) {
	p := newProgram()
	p.now = "kv_cache: layer 3"
	byMetadata := p.alloc(100, inSoftmax, inModel)
	p.now = ""
	named := p.alloc(100, inSoftmax, inModel)
	p.now = "Weights"
	p.entry(Annotate, named, 0, nil)
	if got := p.verdicts(byMetadata, named); got[0] != account.CategoryKVCache || got[1] != account.CategoryParameter {
		t.Errorf("verdicts %v", got)
	}
}

// Marked intervals stand in for stacks that were not recorded.
func TestVerdictByMarkedInterval(t *testing.T) {
	p := newProgram()
	p.now = "forward"
	kept := p.alloc(100)
	p.now = "backward"
	p.free(kept)
	p.now = "optimizer_step"
	scratch := p.alloc(100)
	p.free(scratch)
	state := p.alloc(100)
	p.now = "forward"
	p.free(p.alloc(7))
	want := []account.Category{account.CategoryActivation, account.CategoryTemporary, account.CategoryOptimizerState}
	if got := p.verdicts(kept, scratch, state); !slices.Equal(got, want) {
		t.Errorf("verdicts %v, want %v", got, want)
	}
}

// With Python frames alone, autograd's thread has no stacks; where Python never
// called a backward, that means nothing.
func TestVerdictsWithoutNativeFrames(t *testing.T) {
	for _, trained := range []bool{true, false} {
		p := newProgram()
		kept := p.alloc(1000, inSoftmax, inModel, inMain)
		if trained {
			p.free(p.alloc(4, inBackward, inMain), inMain)
		}
		handed := p.alloc(2000)
		p.free(kept)
		p.free(handed)
		want := []account.Category{account.CategoryActivation, account.CategoryTemporary}
		if !trained {
			want = []account.Category{account.CategoryTemporary, account.CategoryUnattributed}
		}
		if got := p.verdicts(kept, handed); !slices.Equal(got, want) {
			t.Errorf("trained %v: %v, want %v", trained, got, want)
		}
	}
}

// A local of a function dies in it; what is handed to a stranger does not tell.
func TestVerdictByOwner(t *testing.T) {
	p := newProgram()
	local := p.alloc(100, inSoftmax, inUser, inMain)
	p.free(local, inUser, inMain)
	handed := p.alloc(100, inSoftmax, inUser, inMain)
	p.free(handed, "stranger project/other.py:99", inMain)
	module := p.alloc(100, inUser, inMain)
	p.free(module, inMain)
	for range 40 {
		p.free(p.alloc(1, "loop project/other.py:50", inMain), inMain)
	}
	want := []account.Category{account.CategoryTemporary, account.CategoryUnattributed, account.CategoryUnattributed}
	if got := p.verdicts(local, handed, module); !slices.Equal(got, want) {
		t.Errorf("verdicts %v, want %v", got, want)
	}
}

// A function that nearly every stack is in tells nothing of any of them.
func TestVerdictByASharedOwner(t *testing.T) {
	p := newProgram()
	local := p.alloc(100, inSoftmax, inUser, inMain)
	p.free(local, inUser, inMain)
	for range 40 {
		p.free(p.alloc(1, "loop project/other.py:50", inUser, inMain), inUser, inMain)
	}
	if got := p.verdicts(local); got[0] != account.CategoryUnattributed {
		t.Errorf("the verdict is %s", got[0])
	}
}

// What a pass makes in a private pool stays there for a graph to use again.
func TestVerdictByPool(t *testing.T) {
	p := newProgram()
	p.s.Pools = append(p.s.Pools, Pool{0, 1})
	captured := p.alloc(100, inSoftmax, inModel)
	cached := p.alloc(100, inCache, inModel)
	p.s.Traces[0].Pool = []uint32{1, 1}
	if got := p.verdicts(captured, cached); got[0] != account.CategoryGraphPool || got[1] != account.CategoryKVCache {
		t.Errorf("verdicts %v", got)
	}
}

func TestCategoryNamed(t *testing.T) {
	for name, want := range map[string]account.Category{
		"kv_cache": account.CategoryKVCache, "Parameters": account.CategoryParameter, "gradient/encoder": account.CategoryGradient,
		"optimizer_state": account.CategoryOptimizerState, "temporaries": account.CategoryTemporary,
		"": "", "unattributed": "", "step 3": "",
	} {
		if got, ok := categoryNamed(name); ok != (want != "") || ok && got != want {
			t.Errorf("%q names %q, %v", name, got, ok)
		}
	}
}
