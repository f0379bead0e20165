package megatron

import (
	"floodmark/account"
	"floodmark/dtype"
	"floodmark/workload"
)

// overlapped makes the workspaces of products that run while ranks of tensor parallelism
// exchange their parts: one of each of three streams, beside that of the others
// (get_cublas_workspace of transformer_engine/pytorch/cpp_extensions/gemm.py).
func (e *te) overlapped() {
	if !e.s.Userbuffers || e.exchanging {
		return
	}
	e.exchanging = true
	e.m.Scratch(dtype.U8, 3*e.workspace)
}

// userbuffers is what Userbuffers hold outside the allocator: for each of twelve
// exchanges of a layer a buffer of the stream's size, of bytes where what is gathered is
// in 8 bits, and a communicator; a ring that sums has nearly two. With layers in 16 bits
// beside those in 8 both have theirs
// (initialize_ub of transformer_engine/pytorch/module/base.py, CommOverlapP2PBase of
// transformer_engine/common/comm_gemm_overlap/comm_gemm_overlap.cpp).
func (r *run) userbuffers() account.Figure {
	const gathers, sums, communicator = 8, 4, 8 << 20
	s := r.te.s
	stream := s.tokens() * r.hidden
	wide := stream * 2 * (gathers + sums)
	all, sets := wide, int64(1)
	if s.Quantisation != "" {
		all = stream * (gathers + 2*sums)
		if s.WideAtStart+s.WideAtEnd > 0 {
			all, sets = all+wide, 2
		}
	}
	p := requested(workspaceFormula)
	p.Scope = account.Process
	return account.Between(all, 2*all+sets*(gathers+sums)*communicator, p)
}

// unexchanged says why Userbuffers have no program; empty where they have.
func (s *settings) unexchanged(chunks []*chunk) string {
	if !s.Userbuffers {
		return ""
	}
	if s.frozen() {
		return "Userbuffers beside adapters are not modelled for Megatron-LM (--tp-comm-overlap)"
	}
	if s.local() {
		return "Userbuffers of mcore's own layers are not modelled (--transformer-impl local)"
	}
	if s.Quantisation == workload.BlockScaling {
		return "Userbuffers beside blocks of 128 are not modelled for Megatron-LM (--tp-comm-overlap)"
	}
	for _, c := range chunks {
		for _, l := range c.layers {
			if l != nil && (l.latent != nil || l.experts != nil) {
				return "Userbuffers beside latent attention and experts are not modelled for Megatron-LM (--tp-comm-overlap)"
			}
		}
	}
	return ""
}
