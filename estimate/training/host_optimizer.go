package training

import (
	"floodmark/workload"
)

// hostElements is from how many elements on torchao's CPUOffloadOptimizer moves a
// parameter's step to main memory (minimal_size of torchao/optim/cpu_offload.py,
// https://github.com/pytorch/ao/blob/v0.9.0/torchao/optim/cpu_offload.py).
const hostElements = 4096

// gradientsToHost brings the gradient of each parameter that is stepped in main
// memory there as soon as it is made, and lets it go.
func (j *job) gradientsToHost() {
	if j.ops == nil || j.train.HostOptimizer != workload.HostGradients {
		return
	}
	for _, p := range j.tuned {
		if p.elements >= hostElements {
			j.machine.WhenAccumulated(p.tensor, func() { j.release(p) })
		}
	}
}

// hostCopies are what such an optimizer makes in main memory: a copy and a gradient
// of each parameter that it steps there, and the moments, which the first step
// makes.
func (j *job) hostCopies() {
	if j.train.HostOptimizer == "" {
		return
	}
	var bytes int64
	for _, p := range j.tuned {
		if p.elements >= hostElements {
			f := j.formatsOf(p)
			bytes += p.in(p.format) + p.in(f.gradient.Format)
			if j.train.Optimizer.Moments() > 0 {
				bytes += p.in(f.first.Format)
			}
			if j.train.Optimizer.Moments() > 1 {
				bytes += p.in(f.second.Format)
			}
		}
	}
	j.away(bytes)
}

// stepped is the parameters that a step on the device updates: all of them, or
// those that are too small for one in main memory.
func (j *job) stepped() []*parameter {
	if j.train.HostOptimizer == "" {
		return j.tuned
	}
	var small []*parameter
	for _, p := range j.tuned {
		if p.elements < hostElements {
			small = append(small, p)
		}
	}
	return small
}
