package megatron

import (
	"floodmark/account"
	"floodmark/bytesize"
	"floodmark/dtype"
	"floodmark/internal/torch"
	"floodmark/timeline"
)

// perToken is the bytes of a token that a chunk is given: tokens and their positions
// where it embeds them, labels and the mask of the loss where it scores them, of 8
// bytes each and the mask of 4 (get_batch_on_this_tp_rank of megatron/core/utils.py).
func (c *chunk) perToken() (n int64) {
	if c.first {
		n += 8 + 8
	}
	if c.last {
		n += 8 + 4
	}
	return n
}

// batch is what the data loader gives a chunk, with the mask of attention, of a byte
// for each pair of positions; nothing where it neither embeds nor scores.
func (r *run) batch(c *chunk) (ids, mask torch.Tensor) {
	s := r.te.s
	if !c.first && !c.last {
		return ids, mask
	}
	ids = r.te.m.Input(dtype.U8, c.perToken(), s.tokens())
	if s.loaderMask {
		mask = r.te.m.Input(dtype.Bool, s.maskBytes())
	}
	return ids, mask
}

// maskBytes is the mask of attention of one micro-batch.
func (s *settings) maskBytes() int64 { return s.batch * (s.positions / s.context) * s.positions }

// leave lets go of what a forward pass was given, or keeps it until the next step.
func (r *run) leave(ids, mask torch.Tensor) {
	if r.te.s.release.keepsBatches() && r.te.s.tensor == 1 {
		r.batches = append(r.batches, ids, mask)
		return
	}
	r.te.m.Drop(ids, mask)
}

// keepOthers makes the batches of micro-batches that are not laid out, where they
// stay: all are there when the last ones run.
func (r *run) keepOthers() {
	s := r.te.s
	if others := s.micro - s.laid(); s.release.keepsBatches() && s.tensor == 1 && others > 0 {
		if bytes, fits := bytesize.Mul(others, r.batchBytes()); fits && bytes > 0 {
			r.batches = append(r.batches, r.te.m.Input(dtype.U8, bytes))
		}
	}
}

// batchBytes is what the chunks of a stage are given of one micro-batch.
func (r *run) batchBytes() (bytes int64) {
	for _, c := range r.chunks {
		if n := c.perToken(); n > 0 {
			bytes += n * r.te.s.tokens()
			if r.te.s.loaderMask {
				bytes += r.te.s.maskBytes()
			}
		}
	}
	return bytes
}

// somewhere bounds the batches that stay on one of the ranks that divide matrices.
func (r *run) somewhere() {
	s := r.te.s
	if !s.release.keepsBatches() || s.tensor == 1 || r.batchBytes() == 0 {
		return
	}
	p := requested(inputFormula)
	f := account.Unknown(bytesize.ErrOverflow.Error(), p)
	if all, fits := bytesize.Mul(s.micro, r.batchBytes()); fits {
		f = account.Between(0, all, p)
	}
	r.tl.Hold(account.TermInput, account.CategoryInput, 1, timeline.ToEnd, f)
}
