package modules

import (
	"slices"

	"floodmark/dtype"
	"floodmark/internal/torch"
)

// Evaluation is a loop over batches without backward. Where they come with labels,
// each pass computes the loss of training.
//
// transformers' Trainer runs the model's own forward under no_grad, in evaluation
// mode: without dropout and recomputation. What it returned beside the loss is kept,
// joined into a new tensor batch by batch, unless the loss alone is asked for
// (prediction_step and evaluation_loop of
// https://github.com/huggingface/transformers/blob/v5.0.0/src/transformers/trainer.py;
// from 4.28 on they did the same).
type Evaluation struct {
	Autocast dtype.Format // in which a pass computes; Unknown for none
	// Logits is the format of predictions; Unknown for that of the pass, which
	// Accelerate makes 32 bits wide under autocast (ConvertOutputsToFp32).
	Logits dtype.Format
	Keeps  bool  // predictions of all batches, which the loop of transformers alone does
	Ranks  int64 // that gather each other's predictions; 0 is one
	Chunk  int64 // positions whose logits are made at once, where no loss is; 0 for all

	joined, last []torch.Tensor // predictions of all batches so far, and of the last
}

// Evaluate runs the pass of a batch.
func (n *Net) Evaluate(e *Evaluation, b Batch) {
	training := n.o
	defer func() { n.o = training }()
	n.o.Training, n.o.BeforeLoss = false, nil
	n.m.NoGrad(func() {
		switch {
		case e.Chunk > 0 && n.chunks():
			n.predictInChunks(e, b)
		case n.o.Software != Transformers, n.o.Objective != nil:
			n.validate(e, b)
		default:
			n.predictionStep(e, b)
		}
	})
}

// Skip is the loop some batches later, all of them like the one that ran: what is
// joined is as long, and the last is beside it.
func (n *Net) Skip(e *Evaluation, batches int64) {
	if batches < 1 {
		return
	}
	for i, t := range e.joined {
		shape := slices.Clone(t.Shape())
		shape[0] += batches * e.last[i].Size(0)
		n.m.Drop(t)
		e.joined[i] = n.m.Keep(n.m.AsKept(n.m.Empty("cat", t.Dtype(), shape...)))
	}
}

// Ended lets go of what a loop keeps, and of its names.
func (n *Net) Ended(e *Evaluation) {
	n.m.Drop(e.last...)
	n.m.Drop(e.joined...)
	e.last, e.joined = nil, nil
	if n.o.Software == LitGPT {
		n.bind(&n.loop.logits, torch.Tensor{})
	}
}

// Kept is the bytes that are kept of the last batch.
func (e *Evaluation) Kept() (bytes int64) {
	for _, t := range e.last {
		width, _ := t.Dtype().Size(nil)
		bytes += t.Elements() * width
	}
	return bytes
}

// validate is a pass of software whose loop keeps the loss alone: its own step up to
// it. torchtune has such a loop from 0.7 on (_loss_step, commit c8b985a73),
// torchtitan from July 2025 (Validator, commit acd5ba8ed), and litgpt computes the
// loss in one piece (validate of
// https://github.com/Lightning-AI/litgpt/blob/v0.4.0/litgpt/finetune/lora.py).
func (n *Net) validate(e *Evaluation, b Batch) {
	m := n.m
	run := func() {
		switch {
		case !b.Labels.Defined():
			m.Drop(m.Keep(n.Logits(b)))
		case n.o.Software == LitGPT:
			m.Drop(m.Keep(n.litgptValidation(b)))
		default:
			m.Drop(m.Keep(n.Loss(b)))
		}
	}
	if n.o.Objective != nil {
		run() // which computes in its format by itself
		return
	}
	e.lowered(m, run)
}

// lowered runs a pass in the format of autocast.
func (e *Evaluation) lowered(m *torch.Machine, run func()) {
	if e.Autocast == dtype.Unknown {
		run()
		return
	}
	m.Autocast(e.Autocast, run)
}

// predictionStep is Trainer.prediction_step, and what the loop does with what it
// returned. TRL's SFTTrainer copies the shifted logits, from which it counts right
// tokens, when the loss has gone, which took more (from 0.15 on, compute_loss of
// https://github.com/huggingface/trl/blob/v0.24.0/trl/trainer/sft_trainer.py).
func (n *Net) predictionStep(e *Evaluation, b Batch) {
	m := n.m
	n.o.Cache = n.o.Cache || n.cachesUnasked()
	n.encodes = true
	var made Outputs
	e.lowered(m, func() { made = n.Outputs(b) })
	returned := []torch.Tensor{made.logits}
	if n.encoding.Defined() {
		returned = append(returned, n.encoding)
	}
	n.encodes, n.encoding = false, torch.Tensor{}
	made.logits = torch.Tensor{}
	e.widen(m, returned)
	n.Release(made)
	if !e.Keeps || !returned[0].Defined() {
		m.Drop(returned...)
		return
	}
	e.join(m, returned)
}

// cachesUnasked reports a class that keeps keys and values in a pass unless it is told
// not to. Trainer tells so from release 5 on (use_cache of
// https://github.com/huggingface/transformers/blob/v5.0.0/src/transformers/training_args.py).
func (n *Net) cachesUnasked() bool {
	return n.o.Release != (Release{}) && n.o.Release.Major < 5 && !n.encodesText() && !n.vision()
}

// returnsEncoding keeps the encoder's last hidden state, which is among what the
// class returns.
func (n *Net) returnsEncoding(encoded torch.Tensor) {
	if n.encodes {
		n.encoding = n.m.Keep(encoded)
	}
}

// widen brings predictions to the format in which the loop has them: all copies are
// there before the first of what the model returned goes.
func (e *Evaluation) widen(m *torch.Machine, returned []torch.Tensor) {
	to := e.Logits
	if to == dtype.Unknown && e.Autocast != dtype.Unknown {
		to = dtype.F32
	}
	if to == dtype.Unknown {
		return
	}
	var old []torch.Tensor
	for i, t := range returned {
		if t.Defined() && t.Dtype() != to {
			old = append(old, t)
			returned[i] = m.Keep(m.AsLogits(m.To(t, to)))
		}
	}
	m.Drop(old...)
}

// join adds predictions to those that are kept. The loop has a name for the last
// ones, which the step before it bound; ranks gather each other's into one tensor
// (accelerate/utils/operations.py, _gpu_gather), and nested_concat joins into a new one
// (transformers/trainer_pt_utils.py).
func (e *Evaluation) join(m *torch.Machine, returned []torch.Tensor) {
	m.Drop(e.last...)
	for i, t := range returned {
		m.AsKept(t)
		if e.Ranks > 1 {
			shape := slices.Clone(t.Shape())
			shape[0] *= e.Ranks
			returned[i] = m.Keep(m.AsKept(m.Empty("all_gather", t.Dtype(), shape...)))
			m.Drop(t)
		}
	}
	e.last = returned
	if len(e.joined) == 0 {
		for _, t := range returned {
			e.joined = append(e.joined, m.Hold(t))
		}
		return
	}
	old := e.joined
	e.joined = nil
	for i, t := range returned {
		e.joined = append(e.joined, m.Keep(m.AsKept(m.Cat(0, old[i], t))))
	}
	m.Drop(old...)
}

// chunks reports a decoder whose head may work on a part of the positions.
func (n *Net) chunks() bool {
	return n.o.Software == Transformers && !n.relative() && !n.vision() && !n.crosses() && !n.encodesText() && !n.qwen()
}

// predictInChunks is a forward pass for log-probabilities alone: the head works on so
// many positions of each sequence at once, log_softmax makes as much again
// (https://github.com/NVIDIA-NeMo/RL/pull/3124), and one chunk's logits go before the
// next's are made.
func (n *Net) predictInChunks(e *Evaluation, b Batch) {
	m := n.m
	e.lowered(m, func() {
		n.begins()
		f := m.Module("", &b.IDs)
		last := f.Let(n.decoder(n.language(), b))
		for from := int64(0); from < last.Size(1); from += e.Chunk {
			g := m.Function()
			x := g.Let(m.Slice(last, 1, from, min(from+e.Chunk, last.Size(1))))
			wide := n.head(g, n.language(), x)
			if e.Logits != dtype.Unknown {
				wide = g.Let(m.AsLogits(m.To(wide, e.Logits)))
			}
			m.Drop(m.LogSoftmax(wide, dtype.Unknown))
			g.End()
		}
		n.ends(torch.Tensor{})
		f.End()
	})
}
