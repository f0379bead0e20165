package training

import (
	"slices"

	"floodmark/estimate/eager/modules"
	"floodmark/internal/torch"
)

// Within a pipeline fully_shard gathers each unit once a step, and reduces with the last
// micro-batch: gradients of the others are added up whole, in the format in which they
// are reduced (torch/distributed/pipelining/stage.py, backward_maybe_with_nosync;
// torch/distributed/fsdp/_fully_shard/_fsdp_param.py, to_accumulated_grad_if_needed).

// keptGradient is what a parameter's gradients were added up to.
type keptGradient struct {
	weight, sum torch.Tensor
}

// keep adds up the gradients of a unit. Those that are reduced in their own format
// autograd adds up itself. Worked number: a matrix of 16,384 by 6,656 in bfloat16 leaves
// 436,207,616 bytes in 32 bits, beside its gradient of 218,103,808 until that is added.
func (s *fullySharded) keep(u *unit) {
	m := s.machine
	var fresh []keptGradient
	for _, g := range u.groups {
		to := s.reduceFormat(g)
		for _, w := range g.weights {
			if !g.trained || !w.HasGrad() || to == g.gathered {
				continue
			}
			if at := slices.IndexFunc(s.kept, func(k keptGradient) bool { return k.weight == w }); at >= 0 {
				m.ZeroGrad(w, true)
				continue
			}
			sum := m.Widened(w, to)
			m.ZeroGrad(w, true)
			fresh = append(fresh, keptGradient{w, sum})
		}
	}
	s.kept = append(s.kept, fresh...)
}

// backwardBegins lets each unit add up once more.
func (s *fullySharded) backwardBegins() {
	for _, u := range s.units {
		u.reduced = u.reduced && s.stages() == 1
	}
}

// pieceEnds reduces a unit of a piece after the other, when its last micro-batch went
// back. Nobody waits for the last of these reductions before the next step's: what it
// reads stays.
func (s *fullySharded) pieceEnds(p *piecePart) {
	m := s.machine
	for _, u := range s.units {
		if !p.has(u.part) {
			continue
		}
		for _, g := range u.groups {
			for _, w := range g.weights {
				if at := slices.IndexFunc(s.kept, func(k keptGradient) bool { return k.weight == w }); at >= 0 {
					m.GradIs(w, s.kept[at].sum)
					s.kept = slices.Delete(s.kept, at, at+1)
				}
			}
		}
		s.ownRows(u)
		s.release(u)
		s.inputs, p.reducing = p.reducing, nil
		s.let(&s.inputs)
		for _, g := range u.groups {
			if g.trained && len(g.weights) > 0 {
				s.reduceEach(g)
			}
		}
		s.inputs, p.reducing = nil, s.inputs
	}
	s.let(&s.summed)
}

// has reports a unit of the piece: its layers, and what is outside of layers where the
// piece has that.
func (p *piecePart) has(part int) bool {
	if part == modules.Outside {
		return p.First || p.Last
	}
	return p.From <= part && part < p.To
}
