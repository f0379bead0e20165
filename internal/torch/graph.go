package torch

import (
	"slices"

	"floodmark/dtype"
)

// edge leads from a node to the one that computed an input of it.
type edge struct {
	node  *node // a reference; nil where no gradient is wanted
	input int32 // which output of that node the gradient is for
}

// meta is what a gradient must look like: the shape and format of an output.
type meta struct {
	dims  int8
	dtype dtype.Format
	size  [maxDims]int64
}

// backward computes the gradients of a node from those of its outputs.
type backward func(*pass)

// node is a function of the backward graph.
type node struct {
	refs     int32
	name     string // as PyTorch calls it: MulBackward0
	module   uint32 // in which its forward ran
	sequence uint64 // of its creation; the highest runs first
	apply    backward
	next     []edge
	saved    []*impl // references: inputs, then results
	inputs   int8    // how many of saved are inputs
	outputs  []meta
	ints     [maxDims]int64 // attributes: dimensions, sizes
	n        int8           // how many of ints count
	dim      int8           // a dimension that the node works on
	op       string         // the kernel that its backward runs
	leaf     *impl          // of AccumulateGrad: a reference
	packed   *Packed        // a weight that backward unpacks

	pool Pool // out of which its backward allocates

	attribute *impl // what lives as long as the node: a reference

	assigned *[2]impl // of an assignment: what it wrote into, and the part, by shape and layout

	moved      *Saved     // that has some of what it saved in main memory
	program    *recompute // the checkpoint that it is part of
	firstSaved int32      // where what it saves stands in the list of the checkpoint

	epoch  int32 // of the backward that met it last
	waits  int32 // gradients that it still waits for
	buffer []*impl

	oneOutput [1]meta
	fewNext   [3]edge
	fewSaved  [3]*impl
	oneGrad   [1]*impl
}

// accumulateSequence makes AccumulateGrad run before everything else.
const accumulateSequence = ^uint64(0)

// wants reports that an operator on these inputs is recorded for backward.
func (m *Machine) wants(inputs ...*impl) bool {
	if m.noGrad > 0 || m.inference > 0 {
		return false
	}
	for _, i := range inputs {
		if i != nil && i.requiresGrad {
			return true
		}
	}
	return false
}

// record makes the node of an operator: an edge for each input, in the order of
// the operator's arguments.
func (m *Machine) record(name string, apply backward, inputs ...*impl) *node {
	n := m.nodes.take()
	*n = node{name: name, module: m.sites.module, sequence: m.sequence, apply: apply, pool: m.pool}
	m.sequence++
	n.next = n.fewNext[:0]
	n.saved = n.fewSaved[:0]
	n.outputs = n.oneOutput[:0]
	for _, i := range inputs {
		n.next = append(n.next, m.edgeOf(i))
	}
	return n
}

// edgeOf is where the gradient of an input goes.
func (m *Machine) edgeOf(i *impl) edge {
	switch {
	case i == nil || !i.requiresGrad:
		return edge{}
	case i.node != nil:
		i.node.refs++
		return edge{i.node, i.output}
	case i.acc == nil:
		n := m.nodes.take()
		*n = node{name: "AccumulateGrad", module: m.sites.module, sequence: accumulateSequence, leaf: retain(i), pool: m.pool}
		n.outputs = append(n.oneOutput[:0], metaOf(i))
		i.acc = n
	}
	i.acc.refs++
	return edge{i.acc, 0}
}

func metaOf(i *impl) meta { return meta{dims: i.dims, dtype: i.dtype, size: i.size} }

// save keeps inputs for backward, in the order in which they are released.
func (m *Machine) save(n *node, list ...*impl) {
	m.saveResults(n, list...)
	n.inputs = int8(len(n.saved))
}

// saveResults keeps results beside the output for backward, and what else goes
// after the inputs in every release.
func (m *Machine) saveResults(n *node, list ...*impl) {
	for _, i := range list {
		if m.packing != nil {
			m.pack(n)
			continue
		}
		if m.replaying != nil {
			m.refill(i)
		}
		if m.watching != nil {
			m.watching.places = append(m.watching.places, place{node: n, at: len(n.saved)})
		}
		n.saved = append(n.saved, retain(i))
		m.keptForBackward(i.storage)
	}
}

// saveOutput keeps a result for backward: its storage, not the tensor, which
// would hold the node that holds it.
func (m *Machine) saveOutput(n *node, out *impl) {
	a := m.alias(out)
	m.saveResults(n, a)
	m.drop(a)
}

// computes makes a tensor the next output of a node.
func (n *node) computes(out *impl) *impl {
	out.node, out.requiresGrad = n, true
	out.output = int32(len(n.outputs))
	n.outputs = append(n.outputs, metaOf(out))
	n.refs++
	return out
}

// forget releases what a node saved.
func (m *Machine) forget(n *node) {
	if n.moved != nil {
		n.moved.forget(n)
	}
	saved := n.saved
	n.saved = nil
	if m.release.releasesSelfFirst() {
		slices.Reverse(saved[:n.inputs])
	}
	n.inputs = 0
	m.drop(saved...)
	if n.program != nil {
		m.dropRecompute(n)
	}
}

// unlink drops a reference to a node. With the last one go what it saved and its
// references to others, without recursion: graphs are deep.
func (m *Machine) unlink(n *node) {
	if n.refs--; n.refs > 0 {
		return
	}
	first := len(m.deleting)
	m.deleting = append(m.deleting, n)
	for len(m.deleting) > first {
		last := m.deleting[len(m.deleting)-1]
		m.deleting = m.deleting[:len(m.deleting)-1]
		m.forget(last)
		for _, e := range last.next {
			if e.node == nil {
				continue
			}
			if e.node.refs--; e.node.refs == 0 {
				m.deleting = append(m.deleting, e.node)
			}
		}
		if last.attribute != nil {
			m.release1(last.attribute)
		}
		if last.leaf != nil {
			last.leaf.acc = nil
			m.release1(last.leaf)
		}
		delete(m.hooks, last)
		m.nodes.give(last)
	}
}
