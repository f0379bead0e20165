package snapshot

import (
	"strconv"
	"strings"

	"floodmark/account"
	"floodmark/timeline"
)

// program writes the recording of a small program: what it allocates and frees,
// from where.
type program struct {
	s       Snapshot
	strings map[string]uint32
	next    uint64
	blocks  []Block
	now     string // user metadata of what follows
}

func newProgram() *program {
	p := &program{strings: map[string]uint32{}, next: 1 << 20}
	p.s.Streams, p.s.Pools, p.s.Traces = []uint64{0}, []Pool{{}}, make([]Trace, 1)
	p.text("")
	return p
}

func (p *program) text(s string) uint32 {
	i, ok := p.strings[s]
	if !ok {
		i = uint32(len(p.s.Stacks.Strings))
		p.strings[s] = i
		p.s.Stacks.Strings = append(p.s.Stacks.Strings, s)
	}
	return i
}

// stack is frames, innermost first: "function file.py:12" in Python, a function
// alone in C++. Without frames it is an empty stack.
func (p *program) stack(frames ...string) uint32 {
	var list []uint32
	for _, text := range frames {
		f := timeline.Frame{Function: p.text(text)}
		if function, place, ok := strings.Cut(text, " "); ok && strings.Contains(place, ".py:") {
			file, line, _ := strings.Cut(place, ":")
			n, _ := strconv.Atoi(line)
			f = timeline.Frame{Function: p.text(function), File: p.text(file), Line: int32(n)}
		}
		list = append(list, uint32(len(p.s.Stacks.Frames)))
		p.s.Stacks.Frames = append(p.s.Stacks.Frames, f)
	}
	return p.s.Stacks.Add(list)
}

func (p *program) entry(action Action, address uint64, size int64, frames []string) {
	t := &p.s.Traces[0]
	t.Action, t.Addr, t.Size = append(t.Action, action), append(t.Addr, address), append(t.Size, size)
	t.Stream, t.Stack = append(t.Stream, 0), append(t.Stack, p.stack(frames...))
	t.Metadata = append(t.Metadata, p.text(p.now))
}

// place is an address for so many bytes.
func (p *program) place(size int64) uint64 {
	p.next += 1 << 30
	p.blocks = append(p.blocks, Block{Address: p.next, Size: size, Requested: size, Stack: timeline.NoStack, State: Allocated, placed: true})
	return p.next
}

func (p *program) alloc(size int64, frames ...string) uint64 {
	address := p.place(size)
	p.entry(Alloc, address, size, frames)
	return address
}

func (p *program) free(address uint64, frames ...string) {
	for i, b := range p.blocks {
		if b.Address == address {
			p.entry(FreeRequested, address, b.Requested, frames)
			p.entry(FreeCompleted, address, b.Requested, frames)
			p.blocks = append(p.blocks[:i], p.blocks[i+1:]...)
			return
		}
	}
}

// resident makes n allocations that were there before the trace began.
func (p *program) resident(n int, size int64) (addresses []uint64) {
	for range n {
		addresses = append(addresses, p.place(size))
	}
	return addresses
}

// record is the recording: each block in a segment of its own.
func (p *program) record() (*Recording, *Snapshot) {
	for _, b := range p.blocks {
		p.s.Segments = append(p.s.Segments, Segment{
			Address: b.Address, Total: b.Size, Allocated: b.Size, Active: b.Size, Requested: b.Requested,
			Stack: timeline.NoStack, First: len(p.s.Blocks), Count: 1,
		})
		p.s.Blocks = append(p.s.Blocks, b)
	}
	return p.s.Recordings()[0], &p.s
}

// verdicts are what the allocations at addresses are for; an address that was
// used again counts as its first allocation.
func (p *program) verdicts(addresses ...uint64) []account.Category {
	r, s := p.record()
	x := s.Explain(r)
	var list []account.Category
	for _, address := range addresses {
		for a := range r.Addresses {
			if r.Addresses[a] == address {
				list = append(list, x.Verdict(uint32(a)).Category)
				break
			}
		}
	}
	return list
}

// Frames of real stacks.
const (
	inModel     = "forward project/model.py:10"
	inCall      = "_call_impl site-packages/torch/nn/modules/module.py:1750"
	inMain      = "<module> project/train.py:9"
	inSoftmax   = "softmax project/model.py:30"
	inLoss      = "cross_entropy site-packages/torch/nn/functional.py:3000"
	inNode      = "torch::autograd::generated::MulBackward0::apply(std::vector<at::Tensor>&&)"
	inEngine    = "torch::autograd::Engine::evaluate_function(std::shared_ptr<torch::autograd::GraphTask>&)"
	inAccumul   = "torch::autograd::AccumulateGrad::apply(std::vector<at::Tensor>&&)"
	inBackward  = "backward site-packages/torch/_tensor.py:626"
	inStep      = "step site-packages/torch/optim/adamw.py:200"
	inZeroGrad  = "zero_grad site-packages/torch/optim/optimizer.py:975"
	inCache     = "update site-packages/transformers/cache_utils.py:400"
	inLoader    = "pin_memory site-packages/torch/utils/data/_utils/pin_memory.py:50"
	inGather    = "_alloc_padded_unsharded_flat_param site-packages/torch/distributed/fsdp/_flat_param.py:1400"
	inReduce    = "reduce_scatter_tensor site-packages/torch/distributed/distributed_c10d.py:4000"
	inCheckpt   = "recompute_fn site-packages/torch/utils/checkpoint.py:1100"
	inCapture   = "capture_begin site-packages/torch/cuda/graphs.py:84"
	inWorkspace = "at::cuda::getCurrentCUDABlasHandle()"
	inTo        = "convert site-packages/torch/nn/modules/module.py:1357"
	inUser      = "build project/other.py:3"
)
