package modules

import "floodmark/internal/torch"

// Piece is the layers that a stage of a pipeline runs at once, by their places among
// those of the rank, and what stands around them: the embedding, or norm and head.
type Piece struct {
	From, To    int
	First, Last bool
}

// Forward is a pass through a piece: of tokens where it is the first, else of what
// another stage sent. The caller holds what comes out: hidden states, or logits. What
// stands outside of layers belongs to a piece at either end, and to no other.
func (n *Net) Forward(p Piece, in torch.Tensor) torch.Tensor {
	ends := p.First || p.Last
	if ends {
		n.begins()
	}
	out := n.m.Keep(n.titanPiece(p, in))
	if ends {
		n.ends(out)
	}
	return out
}

// LossOf is the loss of logits that the caller holds, as the loop computes it.
func (n *Net) LossOf(logits, labels torch.Tensor) torch.Tensor {
	return n.m.Keep(n.titanLossOf(logits, labels))
}
