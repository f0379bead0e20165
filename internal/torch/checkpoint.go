package torch

// recompute is a part of the forward that runs again in backward.
type recompute struct {
}

func (m *Machine) dropRecompute(n *node) { n.program = nil }
