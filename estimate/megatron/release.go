package megatron

import "fmt"

// release is the second number of a release of Megatron-LM's core, 13 of 0.13.0; 0 is
// the newest, and stands for what cannot be read. TransformerEngine is taken to be the
// one that the release was built and tested with: 2.1 below 0.12 (the image 25.03 of
// .gitlab/stages/01.build.yml), 2.5 below 0.13 (docker/Dockerfile.ci.dev), and as
// pyproject.toml pins it 2.7, 2.9, 2.12, 2.14, 2.16 and 2.17 below 0.14 to 0.19.
type release int

// releaseOf reads a version such as 0.13, 0.13.0 or 0.13.0rc2.
func releaseOf(version string) (r release) {
	_, _ = fmt.Sscanf(version, "0.%d", &r)
	return max(0, r)
}

// before reports a release older than 0.minor.
func (r release) before(minor release) bool { return r > 0 && r < minor }

// Since these releases a gradient that stands for one that was added to its buffer is
// kept and shared; before each product made one that went with its backward.
const (
	// linearStands is of TransformerEngine's products: 2.3
	// (https://github.com/NVIDIA/TransformerEngine/pull/1651). Below it norms in 8 bits also
	// left what they made along the rows beside what backward reads along the columns
	// (transformer_engine/pytorch/module/layernorm_linear.py of 2.1 and of 2.3).
	linearStands release = 13
	// plainStands is of mcore's own: megatron/core/tensor_parallel/layers.py, commit
	// e7c55de99e.
	plainStands release = 14
	// groupedStands is of products of experts: TransformerEngine 2.10
	// (https://github.com/NVIDIA/TransformerEngine/pull/2305).
	groupedStands release = 16
)

// keepsBatches reports a release whose data iterator, which can run a step again,
// has what get_batch moved to the device until the next step: it moves a batch within
// the dictionary that the iterator saved. Releases before made another dictionary, and
// since 0.19 the iterator saves a copy
// (https://github.com/NVIDIA/Megatron-LM/blob/core_v0.18.0/pretrain_gpt.py and
// megatron/core/rerun_state_machine.py, RerunDataIterator; commits 5e4fc931ba and
// bf32f4415e). Only the first of the ranks that divide matrices reads batches.
func (r release) keepsBatches() bool { return r == 18 }
