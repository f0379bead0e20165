package training

import (
	"fmt"

	"floodmark/account"
	"floodmark/bytesize"
	"floodmark/dtype"
	"floodmark/estimate/eager/modules"
	"floodmark/workload"
)

// evaluation is the forward passes of the evaluation set with their loss, and the
// predictions that are kept. transformers' Trainer joins what it has and each new
// batch into a new tensor (nested_concat of trainer_pt_utils.py), and hands it to
// main memory after so many batches.
func (j *job) evaluation() {
	e := workload.EvaluationLoop{}
	if j.train.Evaluation != nil {
		e = *j.train.Evaluation
	}
	if !j.trains() {
		j.workspaces()
	}
	i := len(j.tl.Phases)
	j.span(account.PhaseEvaluation, 0, func() {
		if j.ops != nil {
			j.evaluate(e)
		} else {
			j.kept(e)
		}
	})
	if why := j.undescribed(); why != "" && j.ops != nil {
		j.unpredicted(i, i, why)
	}
	if j.ops == nil {
		j.leastLogits(i, e)
		j.unpredicted(i, i, j.why())
	}
	j.weighLogits(e)
}

// leastLogits is what the logits of a batch take at least, where operators are
// not predicted: those that are made at once, in the format of predictions. Worked
// number: 11,600 × 248,320 × 4 bytes are 11,522,048,000
// (https://github.com/THUDM/slime/issues/2253); in chunks of 1,024 positions
// 1,017,118,720.
func (j *job) leastLogits(span int, e workload.EvaluationLoop) {
	if n, known := j.atOnce(e, e.Chunk); known && j.predicted(e) != dtype.Unknown {
		p := requested(logitsFormula)
		j.bound(j.term(account.TermLogits, account.CategoryLogits, p), span, int32(span), account.AtLeast(n, j.why(), p))
	}
}

// weighLogits tells when the logits of a batch outweigh the model, and what
// making them in chunks leaves of them.
func (j *job) weighLogits(e workload.EvaluationLoop) {
	whole, known := j.atOnce(e, 0)
	stored, counted := j.in.Model.WeightsBytes().High()
	if !known || !counted || e.Chunk > 0 || whole <= stored {
		return
	}
	chunk, _ := j.atOnce(e, commonChunk)
	batch, context := j.evaluated(e)
	j.warn("logits_outweigh_model", fmt.Sprintf(
		"the logits of %s × %s positions over a vocabulary of %s are %s bytes (%s) in %s, more than the model's weights (%s); made in chunks of %s positions they are %s bytes (%s at once): training.evaluation.chunk",
		bytesize.Group(batch), bytesize.Group(context), bytesize.Group(int64(j.in.Model.Vocab)), bytesize.Group(whole), gib(whole), j.predicted(e),
		gib(stored), bytesize.Group(commonChunk), bytesize.Group(chunk), gib(chunk)))
}

// commonChunk is the positions of a chunk where trainers make log-probabilities
// in chunks (https://github.com/NovaSky-AI/SkyRL/pull/1610).
const commonChunk = 1024

func gib(bytes int64) string { return bytesize.Format(bytes, bytesize.GiB) }

// atOnce is the bytes of the logits that are alive together, of all positions of
// a batch or of a chunk of each sequence's.
func (j *job) atOnce(e workload.EvaluationLoop, chunk int64) (bytes int64, known bool) {
	batch, context := j.evaluated(e)
	if chunk > 0 {
		context = min(context, chunk)
	}
	width, _ := j.predicted(e).Size(nil)
	n, fits := bytesize.Mul(batch, context, int64(j.in.Model.Vocab), width)
	return n, fits && n > 0
}

// predicted is the format of predictions; Unknown where nobody said it.
func (j *job) predicted(e workload.EvaluationLoop) dtype.Format {
	if e.Logits == dtype.Unknown && j.train.Autocast != dtype.Unknown {
		return dtype.F32 // accelerate's convert_outputs_to_fp32
	}
	return e.Logits
}

// kept is the predictions of all batches, where no pass shows them.
func (j *job) kept(e workload.EvaluationLoop) {
	p := requested(keptFormula)
	if !e.KeepLogits {
		j.keptHere(account.Zero("no predictions are kept: the workload does not say keep_logits", p))
		return
	}
	one, why := j.predictions(e)
	if why != "" {
		j.keptHere(account.Unknown(why, p))
		return
	}
	term := j.term(account.TermKeptPredictions, account.CategoryLogits, p)
	steps := j.joined(e, one)
	// What lies between is freed block by block, so the last joining is the highest.
	collected := j.born(term, (steps-1)*one)
	batch := j.born(term, one)
	if steps > 1 {
		j.rebind(&collected, j.born(term, steps*one))
	}
	j.free(batch, collected)
}

// keptHere is a figure of what is kept.
func (j *job) keptHere(f account.Figure) {
	j.here(j.term(account.TermKeptPredictions, account.CategoryLogits, f.Provenance), f)
}

// joined is the batches whose predictions lie on the device together. What goes to
// main memory is counted there.
func (j *job) joined(e workload.EvaluationLoop, one int64) (batches int64) {
	if e.AccumulationSteps == 0 {
		return e.Batches
	}
	j.handedOver(one, e)
	return min(e.Batches, e.AccumulationSteps)
}

// evaluated is the sequences of a batch of evaluation and their length; 0 where
// nobody said them.
func (j *job) evaluated(e workload.EvaluationLoop) (batch, context int64) {
	batch, context = e.Batch, e.Context
	if context == 0 {
		context, _ = j.in.Workload.Dimension(workload.Context)
	}
	if batch == 0 {
		batch, _ = j.in.Workload.Dimension(workload.Batch)
	}
	return batch, context
}

// predictions is the bytes of one batch's logits, and why they are not known.
func (j *job) predictions(e workload.EvaluationLoop) (bytes int64, why string) {
	batch, context := j.evaluated(e)
	width, _ := j.predicted(e).Size(nil)
	switch why := j.uncounted(e, 0); {
	case why != "":
		return 0, why
	case width == 0:
		return 0, "the workload does not say in which format predictions are kept (training.evaluation.logits): fp32 under autocast and in older releases of transformers, else that of the computation"
	case j.in.Model.Vocab == 0:
		return 0, "the size of the vocabulary is not known"
	}
	n, fits := bytesize.Mul(batch, context, int64(j.in.Model.Vocab), width)
	if !fits {
		return 0, bytesize.ErrOverflow.Error()
	}
	return n, j.uncounted(e, n)
}

// uncounted is why the predictions of all batches are not known, where those of one
// are so many bytes.
func (j *job) uncounted(e workload.EvaluationLoop, one int64) string {
	if batch, context := j.evaluated(e); batch == 0 || e.Batches == 0 || context == 0 && !j.pictures() {
		return "the workload does not say how much is evaluated (training.evaluation: batch, batches, context)"
	}
	if _, fits := bytesize.Mul(one, e.Batches, 2); !fits {
		return bytesize.ErrOverflow.Error()
	}
	return ""
}

// handedOver is the predictions in main memory, joined as on the device.
func (j *job) handedOver(one int64, e workload.EvaluationLoop) {
	all := one * e.Batches
	p := account.Provenance{Origin: account.Calculated, Scope: account.Host, Counter: keptFormula, Source: sourceOf(keptFormula)}
	j.here(j.term(account.TermKeptOnHost, account.CategoryLogits, p), account.Between(all, 2*all, p))
}

// evaluate runs the passes that matter: the first, and the last of those whose
// predictions lie on the device together, which stands beside all of theirs.
func (j *job) evaluate(e workload.EvaluationLoop) {
	o := j.ops
	batch, context := j.evaluated(e)
	b := j.batchOf(j.inPairs(batch), max(1, context), !e.Unlabelled && e.Chunk == 0)
	loop := &modules.Evaluation{Autocast: j.train.Autocast, Logits: e.Logits, Chunk: e.Chunk, Keeps: e.KeepLogits, Ranks: int64(j.in.Plan.Mesh.DataParallel)}
	o.net.Evaluate(loop, b)
	steps := e.Batches
	switch one, why := loop.Kept(), j.uncounted(e, loop.Kept()); {
	case one == 0:
		j.kept(e)
	case why != "":
		j.keptHere(account.Unknown(why, requested(keptFormula)))
	default:
		steps = j.joined(e, one)
		o.net.Skip(loop, steps-2)
	}
	if steps != 1 {
		o.net.Evaluate(loop, b)
	}
	o.net.Ended(loop)
	o.m.Drop(b.IDs, b.Labels, b.Mask, b.Ignored, b.Positions, b.Pixels, b.DecoderIDs)
	if batch == 0 || context == 0 && !j.pictures() {
		o.m.Unknown("the workload does not say how much is evaluated (training.evaluation: batch, context)")
	}
}

// inPairs is the sequences of a batch, at least those that the loss needs.
func (j *job) inPairs(batch int64) int64 {
	if j.objective() == nil {
		return max(1, batch)
	}
	if batch%2 != 0 {
		j.ops.m.Unknown("a batch of an odd number of sequences is no pairs of what was chosen and what was rejected: it counts both (training.evaluation.batch)")
	}
	return max(2, batch+batch%2)
}
