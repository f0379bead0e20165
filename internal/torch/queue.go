package torch

// queue is the nodes that are ready, the one that was created last in front. It
// is a binary heap that moves its elements as std::push_heap and std::pop_heap
// do, since equal ones (AccumulateGrad) come out in an order that depends on it.
type queue []*node

func (q *queue) push(n *node) {
	*q = append(*q, n)
	h := *q
	h.up(len(h)-1, n)
}

func (q queue) up(hole int, n *node) {
	for hole > 0 {
		parent := (hole - 1) / 2
		if q[parent].sequence >= n.sequence {
			break
		}
		q[hole] = q[parent]
		hole = parent
	}
	q[hole] = n
}

func (q *queue) pop() *node {
	h := *q
	top, last := h[0], h[len(h)-1]
	h = h[:len(h)-1]
	*q = h
	if len(h) == 0 {
		return top
	}
	hole, child := 0, 0
	for child < (len(h)-1)/2 {
		child = 2 * (child + 1)
		if h[child].sequence < h[child-1].sequence {
			child--
		}
		h[hole] = h[child]
		hole = child
	}
	if len(h)%2 == 0 && child == (len(h)-2)/2 {
		child = 2*(child+1) - 1
		h[hole] = h[child]
		hole = child
	}
	h.up(hole, last)
	return top
}
