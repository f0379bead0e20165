package torch

import (
	"fmt"
	"strconv"
	"strings"
)

// Release is a release of PyTorch; the zero one is the newest.
type Release struct{ Major, Minor int }

// ParseRelease reads the first two numbers of a version: "2.6.0+cu124" is 2.6.
func ParseRelease(version string) (Release, error) {
	parts := strings.SplitN(strings.TrimSpace(version), ".", 3)
	if len(parts) >= 2 {
		major, err := strconv.Atoi(parts[0])
		minor, err2 := strconv.Atoi(parts[1])
		if err == nil && err2 == nil && major > 0 {
			return Release{major, minor}, nil
		}
	}
	return Release{}, fmt.Errorf("%q is not a release of PyTorch: write it as 2.6", version)
}

// before reports an older release.
func (r Release) before(major, minor int) bool {
	return r != Release{} && (r.Major < major || r.Major == major && r.Minor < minor)
}

// What differs between releases, as seen on recorded traces (1.13 on a CPU; 2.6
// and 2.10 on CUDA) and in the sources between them.

// addsRootsApart: foreach AdamW made its denominators beside the roots in 1.13
// (torch/optim/adamw.py, _multi_tensor_adamw).
func (r Release) addsRootsApart() bool { return r.before(2, 0) }

// savesSoftmaxInput: softmax and log_softmax kept their input beside the result
// to 1.10 (https://github.com/pytorch/pytorch/issues/64000,
// https://github.com/pytorch/pytorch/pull/65242).
func (r Release) savesSoftmaxInput() bool { return r.before(1, 11) }

// savesMeanInput: mean over dimensions kept its input in 1.13.
func (r Release) savesMeanInput() bool { return r.before(2, 0) }

// accumulatesInPlace: gradients that meet are added into the older one where
// nobody else holds it; 1.13 always made a third
// (torch/csrc/autograd/input_buffer.cpp, can_accumulate_inplace).
func (r Release) accumulatesInPlace() bool { return !r.before(2, 0) }

// releasesSelfFirst: saved tensors went in the order of the arguments in 1.13,
// and go by name since.
func (r Release) releasesSelfFirst() bool { return r.before(2, 0) }

// slicesWhole: indexing with a full slice beside a tensor makes a view with a
// backward of its own in 1.13.
func (r Release) slicesWhole() bool { return r.before(2, 0) }

// cachesInInferenceMode: autocast kept weights that it had cast in inference
// mode until https://github.com/pytorch/pytorch/issues/158232.
func (r Release) cachesInInferenceMode() bool { return r.before(2, 10) }

// castsWithHistory: a weight that is cast where no gradients are recorded, and
// kept, had no history until the same issue was closed.
func (r Release) castsWithHistory() bool { return !r.before(2, 10) }

// fusesRMSNorm: rms_norm has a kernel of its own on CUDA
// (https://github.com/pytorch/pytorch/pull/153666).
func (r Release) fusesRMSNorm() bool { return !r.before(2, 9) }

// KeepsRecomputed: fully_shard keeps what it gathered for layers that are computed
// again until their own backward; before, it freed and gathered them once more
// (https://github.com/pytorch/pytorch/pull/164009).
func (m *Machine) KeepsRecomputed() bool { return !m.release.before(2, 10) }

// KeepsAllReduced: fully_shard keeps what replicas reduce between them to the end of
// backward, beside the gradients that it is cast to
// (https://github.com/pytorch/pytorch/pull/140044; issue 179128 has its bytes).
func (m *Machine) KeepsAllReduced() bool { return !m.release.before(2, 6) }

// CopiesWhereReduced: fully_shard copies gradients together on the stream of the
// reduction, where the copy goes when that is queued; later on the one that computes,
// where it stays until the next
// (https://github.com/pytorch/pytorch/pull/129721, of 2024-06-27;
// torch/distributed/_composable/fsdp/_fsdp_collectives.py of 2.3.0 and 2.4.0 has the
// former, of 2.9.0 the latter).
func (m *Machine) CopiesWhereReduced() bool { return m.release.before(2, 5) }

// ReshardsRoot reports releases in which fully_shard(reshard_after_forward=True) frees
// the outermost unit too after forward, which earlier ones keep whatever is asked
// (https://github.com/pytorch/pytorch/pull/154704, and 155319).
func (m *Machine) ReshardsRoot() bool { return !m.release.before(2, 8) }

// ViewsGathered reports releases in which what ranks gathered along a dimension is
// read where it lies if all dimensions before it are one; earlier ones join the ranks'
// parts in a copy (torch/distributed/_functional_collectives.py, all_gather_tensor;
// torch/_utils.py, _maybe_view_chunk_cat).
func (m *Machine) ViewsGathered() bool { return !m.release.before(2, 10) }

// CopiesLoadedState reports releases whose optimizers copy a state that is loaded before
// they take it over (torch/optim/optimizer.py, load_state_dict).
func (m *Machine) CopiesLoadedState() bool { return m.release.before(2, 1) }

// keepsRandomState: flash attention keeps its random state on the device.
func (r Release) keepsRandomState() bool { return !r.before(2, 7) }

// widensMathAttention: scaled_dot_product_attention made of operators computes
// 16 bits in 32 (https://github.com/pytorch/pytorch/pull/128922).
func (r Release) widensMathAttention() bool { return !r.before(2, 5) }

// stopsRecomputing: checkpointing stops when the last saved tensor is there, and
// a node has its tensors for its own run only
// (https://github.com/pytorch/pytorch/pull/90105, https://github.com/pytorch/pytorch/pull/96866).
func (r Release) stopsRecomputing() bool { return !r.before(2, 1) }
