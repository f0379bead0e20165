package training

import (
	"floodmark/estimate/eager/modules"
	"floodmark/internal/torch"
	"floodmark/workload"
)

func (s *fullySharded) unitOf(part int) *unit {
	for _, u := range s.units {
		if u.part == part {
			return u
		}
	}
	return nil
}

// Before gathers a unit for its forward pass, and reduces it in backward when the
// gradient of its input is there. A unit whose backward has begun is there already.
func (s *fullySharded) Before(part int, in torch.Tensor) {
	u := s.unitOf(part)
	if u == nil || u.backward || s.machine.Stopped() {
		return
	}
	s.gather(u)
	s.arrive(u, true)
	s.machine.BeforeBackward(in, func() { s.reduce(u) })
}

// After frees the gathered parameters of a unit, unless it is one that stays or is
// told to keep them, and waits for the gradient of its output.
func (s *fullySharded) After(part int, out torch.Tensor) {
	u := s.unitOf(part)
	if u == nil || u.backward || s.machine.Stopped() {
		return
	}
	s.leave(u)
	u.reduced = false
	u.awaited = out.Defined() && out.RequiresGrad() // else no operators run, or nothing is trained, or no graph is recorded
	s.machine.BeforeBackward(out, func() { s.begin(u) })
}

// leave is the end of a unit's forward. Where it is computed again in backward, FSDP2
// keeps it for that since PyTorch 2.10, and does not count the pass; before, it freed
// it and took its place for that of another use
// (torch/distributed/fsdp/_fully_shard/_fsdp_param_group.py, post_forward). FSDP1
// frees it, and counts the first pass alone (_exec_order_utils.py).
func (s *fullySharded) leave(u *unit) {
	again := s.machine.InBackward()
	if again || u.part == modules.Outside { // the outermost of what runs
		s.let(&s.last)
	}
	if again && !s.flat() && s.machine.KeepsRecomputed() {
		return
	}
	switch {
	case s.stages() > 1: // no micro-batch frees what the next reads
		return
	case s.KeepsGathered || s.keepsLast(u.part) || u.part == modules.Outside && !s.freesRoot():
	case s.ReshardsOver > 0 && !again:
		s.reshard(u)
	default:
		s.release(u)
	}
	if !s.flat() || len(u.places) == 0 {
		u.places = append(u.places, len(s.passed))
		s.passed = append(s.passed, u)
	}
}

// begin is when the gradient of a unit's output is there: it is gathered, unless it is
// there, and the unit that forward left before it is gathered ahead. That is the one
// before the last use of it, whichever that is; FSDP1 asks whether a gradient will
// call for it.
func (s *fullySharded) begin(u *unit) {
	if u.backward {
		return
	}
	u.backward, u.awaited = true, false
	s.gather(u)
	s.arrive(u, false)
	if len(u.places) == 0 {
		return
	}
	place := u.places[len(u.places)-1]
	if !s.flat() {
		u.places = u.places[:len(u.places)-1]
	}
	if place == 0 {
		return
	}
	if next := s.passed[place-1]; next.awaited || !s.flat() {
		s.gather(next)
	}
}

// freesRoot reports software that asks by name for units to be freed after forward,
// the outermost included (torchtune, training/_distributed.py, shard_model; torchtitan,
// parallelize_llama.py, apply_fsdp), where PyTorch does that.
func (s *fullySharded) freesRoot() bool {
	own, _ := s.software()
	return (own == modules.Torchtune || own == modules.TorchTitan) && s.Kind == workload.FSDP2 && s.machine.ReshardsRoot()
}

// keepsLast reports the last layer where the software keeps it gathered, since
// backward begins with it (torchtitan, parallelize_llama.py, reshard_after_forward).
func (s *fullySharded) keepsLast(part int) bool {
	own, release := s.software()
	return own.KeepsLast(release) && part == s.units[len(s.units)-1].part
}

// gather is the collective: parts are cast where they are computed in another
// format, and come into one buffer. FSDP1's buffer is what operators read.
func (s *fullySharded) gather(u *unit) {
	s.machine.On("all_gather", func() {
		for _, g := range u.groups {
			if len(g.weights) > 0 && !s.machine.Filled(g.weights[0]) && !g.arriving.Defined() {
				s.gatherGroup(g)
			}
		}
	})
}

func (s *fullySharded) gatherGroup(g *flatGroup) {
	var own torch.Tensor
	if g.gathered != g.stored || s.offloads(workload.OffloadParameters) {
		own = s.machine.Gathering(g.gathered, g.whole/s.ranks)
	}
	if s.flat() {
		s.machine.Fill(g.weights...)
	} else {
		g.arriving = s.machine.Gathering(g.gathered, g.whole)
	}
	s.machine.Drop(own)
}

// arrive copies what was gathered to where operators read it. In forward the
// buffer stays until the next unit's is copied.
func (s *fullySharded) arrive(u *unit, forward bool) {
	if s.flat() {
		return
	}
	if forward {
		s.let(&s.last)
	}
	for _, g := range u.groups {
		if !g.arriving.Defined() {
			continue
		}
		s.machine.Fill(g.weights...)
		s.let(&g.smaller)
		if forward {
			s.last = append(s.last, g.arriving)
		} else {
			s.machine.Drop(g.arriving)
		}
		g.arriving = torch.Tensor{}
	}
}

// reshard leaves of each gathered weight the part that one of fewer ranks has, a copy,
// from which backward gathers (torch/distributed/fsdp/_fully_shard/_fsdp_param.py,
// to_sharded_post_forward).
func (s *fullySharded) reshard(u *unit) {
	for _, g := range u.groups {
		for i, w := range g.weights {
			if s.machine.Filled(w) {
				g.smaller = append(g.smaller, s.machine.Gathering(g.gathered, g.parts[i].elements*s.ranks/s.ReshardsOver))
				s.machine.Vacate(w)
			}
		}
	}
}

func (s *fullySharded) release(u *unit) {
	for _, g := range u.groups {
		s.machine.Vacate(g.weights...)
	}
}

// let lets go of buffers.
func (s *fullySharded) let(list *[]torch.Tensor) {
	s.machine.Drop(*list...)
	*list = (*list)[:0]
}
