package modules

import (
	"floodmark/dtype"
	"floodmark/internal/torch"
)

// What differs in a compiled block whose query, key and value are one product and whose
// attention is flex attention: keys and values stay as few heads as they are, the rows of
// the rotary table are gathered by the positions of the tokens, and the kernel of the
// backward takes a number a query and head beside what it gives
// (https://github.com/pytorch/pytorch/blob/v2.9.0/torch/_inductor/kernel/flex/flex_attention.py;
// what is kept is recorded of release 2.15, testdata/compiled/fused_block.txt).

// products is the width of the product that makes the query.
func (r *region) products() int64 {
	if r.fused {
		return (r.heads + 2*r.kvHeads) * r.head
	}
	return r.heads * r.head
}

// perGroup is key or value of the heads that share them.
func (r *region) perGroup() torch.Tensor {
	return r.Empty(r.format, r.batch, r.kvHeads, r.length, r.head)
}

// gathered is rows of the rotary table in complex numbers, for the positions of tokens.
func (r *region) gathered() torch.Tensor {
	return r.Empty(dtype.F32, r.batch*r.length, r.head)
}

// turnFused makes query, key and value of the product, the first two turned.
func (r *region) turnFused(backward bool) {
	r.table = r.gathered()
	wideQ, wideK := r.complex(r.heads), r.complex(r.kvHeads)
	outQ := r.complex(r.heads)
	r.let(false, &wideQ)
	outK := r.complex(r.kvHeads)
	r.let(false, &wideK)
	r.let(r.kept.turned || backward, &r.normed, &r.table)
	r.turnedQuery, r.turnedKey, r.turnedValue = r.perHead(), r.perGroup(), r.perGroup()
	r.let(r.kept.query, &r.query)
	r.let(false, &outQ, &outK)
}

// throughFused ends with the gradients of the projections.
func (b *regionBackward) throughFused(gradient func(int), throughOut torch.Tensor) {
	delta := b.Empty(dtype.F32, b.batch, b.heads, b.length)
	ofQ, ofK, ofV := b.perHead(), b.perGroup(), b.perGroup()
	b.end(&b.lse, &delta, &throughOut, &b.turnedQuery, &b.turnedKey, &b.turnedValue)
	if b.query.Defined() {
		b.end(&b.query)
	}
	wideK := b.complex(b.kvHeads)
	turnedK := b.complex(b.kvHeads)
	b.end(&wideK, &ofK)
	wideQ := b.complex(b.heads)
	turnedQ := b.complex(b.heads)
	b.end(&wideQ, &ofQ, &b.table)
	product := b.wide(b.products())
	b.end(&turnedK, &turnedQ, &ofV)
	through := b.wide(b.width)
	gradient(4)
	b.end(&b.out)
	gradient(3)
	gradient(2)
	gradient(1)
	b.end(&b.normed, &product, &b.attended, &b.rows)
	gradient(0)
	b.end(&through)
}
