package modules

import "floodmark/internal/torch"

// regionBackward is the backward of a compiled block.
type regionBackward struct {
	region
	g     *torch.Gradients
	saved map[*torch.Tensor]int // where a tensor stands among what was kept
}

// backwardOf takes up what forward kept, which stands behind so many others.
func backwardOf(r region, g *torch.Gradients, behind int) *regionBackward {
	b := &regionBackward{region: r, g: g, saved: map[*torch.Tensor]int{}}
	b.buffers = g
	for i, t := range b.all() {
		*t = g.Saved(behind + i)
		b.saved[t] = behind + i
	}
	return b
}

// end lets go of tensors, kept ones too: what a compiled backward has read for the
// last time goes (steal_args of call_func_at_runtime_with_args,
// torch/_functorch/_aot_autograd/runtime_wrappers.py).
func (b *regionBackward) end(list ...*torch.Tensor) {
	for _, t := range list {
		if i, kept := b.saved[t]; kept {
			b.g.Release(i)
			delete(b.saved, t)
		} else if t.Defined() {
			b.Free(*t)
		}
		*t = torch.Tensor{}
	}
}

// run is the backward: the weights are in the order of the region's inputs.
func (b *regionBackward) run(weights []torch.Tensor) {
	gradient := func(i int) {
		w := weights[i]
		b.g.Give(i+1, b.g.Empty(b.format, w.Shape()...)) // whatever the weight was gathered in
	}
	b.again()
	above := b.throughNetwork(gradient)
	b.g.Give(0, above)
	b.throughAttention(gradient)
}

// again computes what lies before the network's backward and was not kept.
func (b *regionBackward) again() {
	if !b.out.Defined() {
		b.project()
		b.turn(true)
		b.out, b.lse = b.Flash(b.turnedQuery, b.turnedKey)
	}
	if !b.attended.Defined() {
		b.attended = b.wide(b.width)
	}
	if !b.up.Defined() {
		b.network()
	}
}

// throughNetwork ends with the gradient of what the network was added to.
func (b *regionBackward) throughNetwork(gradient func(int)) torch.Tensor {
	product := b.wide(b.inner)
	if !b.product.Defined() {
		b.product = b.wide(b.inner)
	}
	ofUp, ofGate := b.wide(b.inner), b.wide(b.inner)
	b.end(&b.up, &b.gate, &product)
	gradient(8)
	b.end(&b.product)
	gradient(7)
	throughUp := b.wide(b.width)
	b.end(&ofUp)
	gradient(6)
	b.end(&b.networkNormed)
	throughGate := b.wide(b.width)
	b.end(&ofGate)
	above := b.wide(b.width)
	b.end(&throughUp, &throughGate, &b.networkRows)
	gradient(5)
	return above
}

// throughAttention ends with the gradients of the projections.
func (b *regionBackward) throughAttention(gradient func(int)) {
	throughOut := b.perHead()
	if !b.turnedQuery.Defined() {
		b.project()
		b.turn(true)
	}
	if b.fused {
		b.throughFused(gradient, throughOut)
		return
	}
	ofQ, ofK, ofV := b.g.FlashGradients(b.turnedQuery, b.turnedKey, b.turnedValue)
	b.end(&b.lse, &throughOut, &b.turnedQuery, &b.turnedKey, &b.turnedValue)
	if b.query.Defined() {
		b.end(&b.query, &b.value)
	}
	value := b.wide(b.kvHeads * b.head)
	b.end(&ofV)
	throughV := b.wide(b.width)
	wideK := b.complex(b.kvHeads)
	turnedK := b.complex(b.kvHeads)
	b.end(&wideK)
	key := b.wide(b.kvHeads * b.head)
	b.end(&turnedK, &ofK)
	throughK := b.wide(b.width)
	wideQ := b.complex(b.heads)
	turnedQ := b.complex(b.heads)
	b.end(&wideQ, &ofQ)
	query := b.wide(b.heads * b.head)
	b.end(&turnedQ)
	throughQ := b.wide(b.width)
	gradient(4)
	b.end(&b.out)
	gradient(3)
	gradient(2)
	gradient(1)
	b.end(&b.normed, &query, &key, &value, &b.attended, &b.rows)
	gradient(0)
	b.end(&throughQ, &throughK, &throughV)
}
