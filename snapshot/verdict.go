package snapshot

import (
	"strings"

	"floodmark/account"
	"floodmark/timeline"
)

// Evidence is the kind of fact that decided what an allocation is for, the
// strongest first.
type Evidence uint8

const (
	NoEvidence   Evidence = iota // nobody can say: the category is unattributed
	ByAnnotation                 // a name that the program gave
	ByFrames                     // functions on the stack of the birth
	ByPool                       // functions on the stack of the birth, and a private pool
	ByFree                       // functions on the stack of the free
	ByLifetime                   // functions on a stack, and in which pass it was let go
	BySizes                      // size and lifetime alone: an inference
)

// String is the word that a record has for the evidence.
func (e Evidence) String() string {
	switch e {
	case ByAnnotation:
		return "annotation"
	case ByFrames:
		return "frames"
	case ByPool:
		return "pool"
	case ByFree:
		return "free"
	case ByLifetime:
		return "lifetime"
	case BySizes:
		return "sizes"
	}
	return "none"
}

// Verdict is what an allocation is for, which evidence decided, and why in a few
// words. Without evidence Why says what was missing.
type Verdict struct {
	Category account.Category
	Evidence Evidence
	Why      string
}

func unattributed(why string) Verdict {
	return Verdict{account.CategoryUnattributed, NoEvidence, why}
}

// judge decides an allocation by annotations and stacks alone.
func (x *Explanation) judge(a int) Verdict {
	if category, ok := x.annotated(a); ok {
		return Verdict{category, ByAnnotation, "named so by the program"}
	}
	born := x.marks.of(x.r.Timeline.Allocs[a].Stack)
	if v, ok := byPurpose(born); ok {
		return v
	}
	if x.isCublasWorkspace(a) {
		return Verdict{account.CategoryWorkspace, BySizes, "of the size of cuBLAS's default workspace" + x.held(" and")}
	}
	activity := born.activity
	if activity == noMark {
		activity = x.lives.marked[a]
	}
	if activity == noMark && x.bornOffPython(a) {
		activity = backward
	}
	if private := x.r.Timeline.Allocs[a].Space == timeline.PrivatePool; private && (activity == forward || activity == backward) {
		return Verdict{account.CategoryGraphPool, ByPool, "made by a pass in a private pool, as under capture into a CUDA graph"}
	}
	switch activity {
	case optimizerStep:
		return x.inStep(a)
	case backward:
		return x.inBackward(a, born)
	case zeroGrad:
		return Verdict{account.CategoryGradient, ByFrames, "made by zero_grad"}
	case loading:
		return x.inLoading(a)
	case loss:
		return Verdict{account.CategoryLogits, ByFrames, "made inside the loss"}
	case forward:
		return x.inForward(a, born)
	}
	return x.byFree(a)
}

// byPurpose decides by code that makes memory for one purpose only.
func byPurpose(born stackMarks) (Verdict, bool) {
	switch {
	case born.has(workspace):
		return Verdict{account.CategoryWorkspace, ByFrames, "the workspace of cuBLAS"}, true
	case born.has(capturing):
		return Verdict{account.CategoryGraphPool, ByFrames, "made while a CUDA graph was captured"}, true
	case born.has(caching):
		return Verdict{account.CategoryKVCache, ByFrames, "made by a cache of keys and values"}, true
	case born.has(sharding):
		return Verdict{account.CategoryParameter, ByFrames, "gathered from sharded weights"}, true
	case born.has(communicating):
		return Verdict{account.CategoryCommunication, ByFrames, "made by torch.distributed"}, true
	case born.has(feeding):
		return Verdict{account.CategoryInput, ByFrames, "made by a data loader"}, true
	case born.activity == noMark && born.has(accumulating):
		return Verdict{account.CategoryGradient, ByFrames, "made by AccumulateGrad"}, true
	}
	return Verdict{}, false
}

// cublasWorkspace is 2 × 4096 KiB + 8 × 16 KiB, PyTorch's default
// CUBLAS_WORKSPACE_CONFIG before Hopper: 8,519,680 bytes.
// Source: parseChosenWorkspaceSize in
// https://github.com/pytorch/pytorch/blob/v2.9.0/aten/src/ATen/cuda/CublasHandlePool.cpp
const cublasWorkspace = (2*4096 + 8*16) << 10

// isCublasWorkspace tells a workspace whose stack has no C++ frames by its
// peculiar size: it is made once a thread and never freed.
func (x *Explanation) isCublasWorkspace(a int) bool {
	return x.r.Timeline.Allocs[a].Requested == cublasWorkspace && x.lives.kept(a)
}

// bornOffPython reports a birth without a stack where only Python frames were
// recorded, which is autograd's thread if anything is.
func (x *Explanation) bornOffPython(a int) bool {
	birth := int(x.lives.birth[a])
	return x.marks.offPython && birth >= 0 && birth < x.r.Trace.Len() && x.r.stackless(birth)
}

// freedBy is what was going on when an allocation was let go.
func (x *Explanation) freedBy(a int) stackMarks {
	freed := x.marks.of(x.lives.freedBy[a])
	if freed.activity == noMark {
		freed.activity = x.lives.unmarked[a]
	}
	request := int(x.lives.request[a])
	if freed.activity == noMark && x.marks.offPython && request >= 0 && request < x.r.Trace.Len() && x.r.stackless(request) {
		freed.activity = backward
	}
	return freed
}

// samePass reports whether an allocation was born and let go in one pass.
func (x *Explanation) samePass(a int) bool {
	l := x.lives
	return !l.kept(a) && l.birth[a] != never && l.bornIn[a] == l.freedIn[a]
}

func (x *Explanation) inStep(a int) Verdict {
	if x.samePass(a) {
		return Verdict{account.CategoryTemporary, ByLifetime, "made and freed within an optimizer step"}
	}
	if x.inLastPass(a) {
		return Verdict{account.CategoryOptimizerState, ByLifetime, "made by an optimizer" + x.held(" and")}
	}
	return Verdict{account.CategoryOptimizerState, ByLifetime, "made by an optimizer and kept after its step"}
}

// inBackward tells a gradient, which outlives its backward, from what is passed
// between nodes.
func (x *Explanation) inBackward(a int, born stackMarks) Verdict {
	freed := x.freedBy(a)
	switch {
	case freed.activity == zeroGrad:
		return Verdict{account.CategoryGradient, ByFree, "freed by zero_grad"}
	case x.samePass(a), x.lives.birth[a] == never && freed.activity == backward && !freed.has(accumulating):
		return Verdict{account.CategoryTemporary, ByLifetime, "made and freed within a backward"}
	case born.has(accumulating):
		return Verdict{account.CategoryGradient, ByFrames, "made by AccumulateGrad"}
	case x.outlivesPass(a):
		return Verdict{account.CategoryGradient, ByLifetime, "made by a backward and kept after it"}
	}
	if !x.history {
		return unattributed("a backward made it, and no history shows whether it is kept after that")
	}
	return Verdict{account.CategoryTemporary, ByLifetime, "made by a backward that the trace does not show the end of"}
}

// inLastPass reports whether an allocation is held, and the trace does not show
// that it outlives the pass of its birth.
func (x *Explanation) inLastPass(a int) bool {
	return x.lives.kept(a) && int(x.lives.bornIn[a]) == len(x.lives.passes)-1
}

// held says what a file shows of an allocation that is there at its end.
func (x *Explanation) held(and string) string {
	if x.history {
		return and + " still held at the end"
	}
	return and + " held at the dump"
}

// outlivesPass reports whether the pass of an allocation's birth ended before
// the allocation.
func (x *Explanation) outlivesPass(a int) bool {
	l := x.lives
	return !l.kept(a) || int(l.bornIn[a]) < len(l.passes)-1
}

func (x *Explanation) inLoading(a int) Verdict {
	if x.samePass(a) {
		return Verdict{account.CategoryTemporary, ByLifetime, "made and freed while weights were loaded"}
	}
	return Verdict{account.CategoryParameter, ByFrames, "made where weights are loaded or moved, buffers among them"}
}

// withoutBackward is said of what a forward made where no backward was recorded
// that it could be held for.
func (x *Explanation) withoutBackward() string {
	if x.history && !x.lives.did[backward] {
		return " (no backward in this trace)"
	}
	return ""
}

// inForward tells what a forward keeps for its backward from what it lets go.
func (x *Explanation) inForward(a int, born stackMarks) Verdict {
	freed := x.freedBy(a)
	switch {
	case born.has(recomputing) && born.has(backward):
		return Verdict{account.CategoryActivation, ByFrames, "recomputed by checkpointing"}
	case x.lives.kept(a):
		return Verdict{account.CategoryActivation, ByLifetime, "made by a forward" + x.held(" and") + x.withoutBackward()}
	case freed.activity == backward:
		return Verdict{account.CategoryActivation, ByLifetime, "made by a forward and held for its backward"}
	case freed.has(castCache):
		return Verdict{account.CategoryTemporary, ByLifetime, "cast for autocast, and cached until its end"}
	case x.samePass(a):
		return Verdict{account.CategoryTemporary, ByLifetime, "made and freed within a forward"}
	}
	return Verdict{account.CategoryActivation, ByLifetime, "made by a forward and held after it"}
}

// byFree decides what was born unseen, or by code that says nothing, by the code
// that lets it go.
func (x *Explanation) byFree(a int) Verdict {
	if x.lives.kept(a) {
		if len(x.r.Timeline.Stacks.Stack(x.r.Timeline.Allocs[a].Stack)) == 0 {
			return unattributed("it has no stack and is" + x.held(""))
		}
		return unattributed("nothing on its stack says what it is for, and it is" + x.held(""))
	}
	if x.lives.request[a] == never {
		return unattributed("its free was requested before the trace, and nothing says what it was")
	}
	freed := x.freedBy(a)
	if freed.activity != backward && x.lives.birth[a] != never {
		return x.byOwner(a)
	}
	switch freed.activity {
	case zeroGrad:
		return Verdict{account.CategoryGradient, ByFree, "freed by zero_grad"}
	case optimizerStep:
		return Verdict{account.CategoryOptimizerState, ByFree, "held before the trace and replaced by an optimizer step"}
	case backward:
		if freed.has(accumulating) {
			return Verdict{account.CategoryGradient, ByFree, "freed by AccumulateGrad"}
		}
		return Verdict{account.CategoryActivation, ByFree, "held until a backward let it go"}
	}
	if freed.has(feeding) {
		return Verdict{account.CategoryInput, ByFree, "freed by a data loader"}
	}
	return unattributed("it was born before the trace, and freed by code that does not say what it was")
}

// ownerShare bounds how long a local of a function is believed to live: a
// quarter of the trace.
const ownerShare = 4

// freedByOwner is the reason of [Explanation.byOwner].
const freedByOwner = "made under a function and freed by the same"

// byOwner decides that an allocation is temporary when the function that lets it
// go is one that was running at its birth. Functions that nearly every stack has
// prove nothing, nor do those of which a stack shows
// several calls, nor does a module's top level.
func (x *Explanation) byOwner(a int) Verdict {
	l, table := x.lives, &x.r.Timeline.Stacks
	owner := x.marks.of(l.freedBy[a]).owner
	long := int(l.request[a]-l.birth[a]) > x.r.Trace.Len()/ownerShare
	if owner == 0 || long || !x.samePass(a) || strings.HasPrefix(table.Function(owner-1), "<") {
		return unattributed("nothing on its stack says what it is for")
	}
	if x.calls(l.freedBy[a], owner-1) == 1 && x.calls(x.r.Timeline.Allocs[a].Stack, owner-1) == 1 {
		return Verdict{account.CategoryTemporary, ByLifetime, freedByOwner}
	}
	return unattributed("nothing on its stack says what it is for")
}

// calls counts the frames of a stack that are in the function of a frame.
func (x *Explanation) calls(stack, frame uint32) int {
	n, method := 0, x.marks.methods[frame]
	for _, i := range x.r.Timeline.Stacks.Stack(stack) {
		if x.marks.methods[i] == method {
			n++
		}
	}
	return n
}

// annotated is the category that a program gave to an allocation, by its user
// metadata or by naming it while it was alive.
func (x *Explanation) annotated(a int) (account.Category, bool) {
	if name := x.named[uint32(a)]; name != "" {
		if c, ok := categoryNamed(name); ok {
			return c, true
		}
	}
	birth := int(x.lives.birth[a])
	if birth < 0 || birth >= len(x.r.Trace.Metadata) {
		return "", false
	}
	return categoryNamed(x.s.text(x.r.Trace.Metadata[birth]))
}

// categoryNamed reads a category, as it is written or in the plural, as the
// first word of a name: "kv_cache", "Parameters: encoder".
func categoryNamed(name string) (account.Category, bool) {
	word := strings.ToLower(strings.TrimSpace(name))
	if end := strings.IndexAny(word, ":/ "); end >= 0 {
		word = word[:end]
	}
	word = strings.TrimSuffix(word, "s")
	switch word {
	case "":
		return "", false
	case "weight":
		return account.CategoryParameter, true
	case "logit":
		return account.CategoryLogits, true
	case "temporarie":
		return account.CategoryTemporary, true
	}
	for _, c := range account.Categories() {
		if word == string(c) {
			return c, c != account.CategoryUnattributed
		}
	}
	return "", false
}
