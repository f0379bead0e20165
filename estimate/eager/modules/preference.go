package modules

import (
	"slices"

	"floodmark/dtype"
	"floodmark/internal/torch"
	"floodmark/model"
)

// Objective is the loss of a trainer of TRL, in place of the class's own.
type Objective struct {
	Method    Method
	Release   Release // of TRL; the zero one is the newest
	Reference Reference
	// Autocast is the format in which a pass computes, whose outputs are made 32 bits
	// wide (accelerate/utils/operations.py, ConvertOutputsToFp32); Unknown for none.
	Autocast dtype.Format
}

// Method is whose loss it is.
type Method string

// DPO is the loss of DPOTrainer with its default, the sigmoid.
const DPO Method = "dpo"

// Reference is whence the log-probabilities come that preferences are measured
// against.
type Reference string

// The references.
const (
	AnotherModel Reference = ""            // a pass of the model that stands beside, of the same formats
	AdapterOff   Reference = "adapter"     // a pass of the model itself, its adapter switched off
	Precomputed  Reference = "precomputed" // they come with the batch
)

// The releases of TRL in which what DPO allocates changed, as 100 × major + minor
// (https://github.com/huggingface/trl/blob/v1.9.0/trl/trainer/dpo_trainer.py and
// that file at each tag).
const (
	likelihoodAlways = 9   // of the chosen, whether it is asked for or not
	likelihoodAsked  = 12  // no more, and a pass returns its keys and values
	rowsApart        = 15  // selective_log_softmax
	cacheOff         = 18  // a pass returns no keys and values again
	hiddenStates     = 19  // the pass returns those of all layers
	oneFunction      = 29  // _compute_loss, which shows the entropy
	slicesAsTheyAre  = 106 // the shift copies no logits
	kernelApart      = 114 // a kernel of its own, which is not described
	fusedHead        = 115 // the head makes no logits
)

// since reports a release of TRL with what came in another.
func (o *Objective) since(release int) bool {
	return o.Release == (Release{}) || 100*o.Release.Major+o.Release.Minor >= release
}

// objectiveLacks says what of an objective has no program; empty for nothing.
func (n *Net) objectiveLacks() string {
	o := n.o.Objective
	switch {
	case o.since(kernelApart) && !o.since(fusedHead):
		return "what the kernels of TRL 1.14 allocate is not described"
	case n.o.Software != Transformers || n.relative() || n.vision() || n.encodesText():
		return "the losses of TRL have programs for decoders of transformers alone"
	case o.since(fusedHead) && slices.ContainsFunc(n.model.Tensors, func(t model.Tensor) bool { return n.held(t).Absent }):
		return "how ranks gather the head that TRL computes in tiles is not modelled"
	case o.since(fusedHead) && !n.outside.one(model.RoleHead).Defined():
		return "the head that TRL computes in tiles is not one matrix"
	}
	return ""
}

// preferenceLoss is a step of DPOTrainer up to its loss, over a batch of the chosen and
// behind them the rejected.
func (n *Net) preferenceLoss(b Batch) torch.Tensor {
	switch o := n.o.Objective; {
	case o.since(fusedHead):
		return n.preferenceFused(b)
	case o.since(oneFunction):
		return n.preferenceAtOnce(b)
	default:
		return n.preferenceApart(b)
	}
}

// preferenceApart is get_batch_loss_metrics with concatenated_forward, which puts a
// batch of its own together.
func (n *Net) preferenceApart(b Batch) torch.Tensor {
	m := n.m
	f := m.Function()
	own := n.concatenated(b, true)
	defer m.Drop(own.held...)
	reference := torch.Tensor{}
	if n.o.Objective.Reference != Precomputed {
		n.asReference(func() {
			other := n.concatenated(b, false)
			reference = f.Let(other.logps)
			m.Drop(other.held...)
		})
	}
	return f.Return(n.sigmoidLoss(f.Let(own.logps), reference))
}

// cacheless reports a pass that keeps no keys and values: of a model that computes its
// layers again.
func (n *Net) cacheless(policy bool) bool {
	return n.o.Checkpointing && (policy || n.o.Objective.Reference == AdapterOff)
}

// passed is what concatenated_forward returns.
type passed struct {
	logps torch.Tensor   // of each sequence
	held  []torch.Tensor // what lives as long as the tuple that it is in
}

// concatenated is concatenated_forward.
func (n *Net) concatenated(b Batch, policy bool) passed {
	m, o := n.m, n.o.Objective
	f := m.Function()
	copied := func(t torch.Tensor) torch.Tensor { return f.Let(m.Clone(t, false)) }
	own := Batch{IDs: copied(b.IDs), Mask: copied(b.Mask), Labels: copied(b.Labels)}
	n.hides = o.since(hiddenStates)
	n.o.Cache = o.since(likelihoodAsked) && !o.since(cacheOff) && !n.cacheless(policy)
	logits := f.Let(n.wide(n.pass(own)))
	hidden := n.hidden
	n.hidden, n.hides, n.o.Cache = nil, false, false
	if policy {
		n.beforeLoss()
	}
	var r passed
	if o.since(rowsApart) {
		r.logps = n.logps(own.Labels, func() torch.Tensor { return n.selective(logits, own.Labels) })
		n.meanLogits(logits, own.Labels, 0)
	} else {
		r.logps = n.logps(own.Labels, func() torch.Tensor { return n.gathered(logits, own.Labels) })
		if o.since(likelihoodAlways) && !o.since(likelihoodAsked) {
			r.held = append(r.held, m.Keep(n.likelihood(logits, own.Labels)))
		}
		if !o.since(likelihoodAsked) {
			r.held = append(r.held, m.Keep(logits)) // of which views are returned
		}
	}
	n.DropCache()
	m.Drop(hidden...)
	r.logps = m.Keep(r.logps)
	f.End()
	return r
}

// preferenceAtOnce is _compute_loss of releases that make logits: of both models
// they live to its end.
func (n *Net) preferenceAtOnce(b Batch) torch.Tensor {
	m := n.m
	f := m.Function()
	logits := f.Let(n.wide(n.pass(b)))
	n.beforeLoss()
	shifted := f.Let(n.shifted(logits))
	labels := f.Let(m.Slice(b.Labels, 1, 1, b.Labels.Size(1)))
	logps := f.Let(n.logps(labels, func() torch.Tensor { return n.selective(shifted, labels) }))
	reference := torch.Tensor{}
	if n.o.Objective.Reference != Precomputed {
		n.asReference(func() {
			other := f.Let(n.wide(n.pass(b)))
			others := f.Let(n.shifted(other))
			reference = f.Let(n.logps(labels, func() torch.Tensor { return n.selective(others, labels) }))
		})
	}
	loss := f.Let(n.sigmoidLoss(logps, reference))
	m.NoGrad(func() {
		m.Drop(n.entropy(shifted))
		chosen := n.meanLogits(shifted, labels, -1)
		m.Drop(m.ArgMax(chosen))
		m.Drop(chosen)
	})
	return f.Return(loss)
}

// preferenceFused is _compute_loss over a head that makes no logits.
func (n *Net) preferenceFused(b Batch) torch.Tensor {
	m := n.m
	f := m.Function()
	labels := f.Let(m.Clone(b.Labels, false))
	logps := f.Let(m.Sum(n.fusedPass(b, labels, true), false, 1))
	n.beforeLoss()
	reference := torch.Tensor{}
	if n.o.Objective.Reference != Precomputed {
		n.asReference(func() { reference = f.Let(m.Sum(n.fusedPass(b, labels, false), false, 1)) })
	}
	return f.Return(n.sigmoidLoss(logps, reference))
}

// pass is a pass of the model under the trainer's autocast.
func (n *Net) pass(b Batch) (logits torch.Tensor) {
	n.underAutocast(func() { logits = n.Logits(b) })
	return logits
}

func (n *Net) underAutocast(run func()) {
	if f := n.o.Objective.Autocast; f != dtype.Unknown {
		n.m.Autocast(f, run)
		return
	}
	run()
}

// wide is an output as accelerate hands it on from a pass under autocast.
func (n *Net) wide(x torch.Tensor) torch.Tensor {
	if n.o.Objective.Autocast == dtype.Unknown {
		return x
	}
	for i, h := range n.hidden {
		n.hidden[i] = n.m.Keep(n.m.To(h, dtype.F32))
		n.m.Drop(h)
	}
	return n.m.AsLogits(n.m.To(x, dtype.F32))
}

// asReference runs the passes of the reference: without a graph, and where it is the
// model itself, without its adapter. That of another model allocates what this one
// does, whose weights stand beside.
func (n *Net) asReference(run func()) {
	training := n.o.Training
	n.o.Training, n.off = false, n.o.Objective.Reference == AdapterOff
	n.m.NoGrad(run)
	n.o.Training, n.off = training, false
}

// shifted is the logits without the last position's.
func (n *Net) shifted(logits torch.Tensor) torch.Tensor {
	x := n.m.Slice(logits, 1, 0, logits.Size(1)-1)
	if n.o.Objective.since(slicesAsTheyAre) {
		return x
	}
	return n.m.AsLogits(n.m.Contiguous(x))
}

// likelihood is the cross entropy of the chosen.
func (n *Net) likelihood(logits, labels torch.Tensor) torch.Tensor {
	m := n.m
	f := m.Function()
	half, length := logits.Size(0)/2, logits.Size(1)
	targets := f.Let(m.Clone(labels, false))
	kept := f.Let(m.Contiguous(m.Slice(m.Slice(logits, 0, 0, half), 1, 0, length-1)))
	next := f.Let(m.Contiguous(m.Slice(m.Slice(targets, 0, 0, half), 1, 1, length)))
	f.Set(&kept, m.Reshape(kept, -1, kept.Size(-1)))
	f.Set(&next, m.Reshape(next, -1))
	return f.Return(m.CrossEntropy(kept, next))
}

// meanLogits shows the mean of the logits of all positions of each half, of which it
// makes copies: over everything, or over the last dimension of each. It returns the
// chosen's.
func (n *Net) meanLogits(logits, labels torch.Tensor, over int) (chosen torch.Tensor) {
	m := n.m
	half := logits.Size(0) / 2
	for i := range int64(2) {
		f := m.Function()
		part := f.Let(m.Slice(logits, 0, i*half, (i+1)*half))
		mask := f.Let(m.Slice(m.To(labels, dtype.Bool), 0, i*half, (i+1)*half))
		rows := m.MaskedRows(part, mask, part.Size(0)*part.Size(1))
		if over != 0 {
			m.Drop(m.Mean(rows, false, over))
		} else {
			m.Drop(m.Mean(rows, false))
		}
		if i == 0 && over != 0 {
			chosen = m.Keep(part)
		}
		f.End()
	}
	return chosen
}

// sigmoidLoss is the loss of two log-ratios, of a number a sequence.
func (n *Net) sigmoidLoss(logps, reference torch.Tensor) torch.Tensor {
	m := n.m
	f := m.Function()
	half := logps.Size(0) / 2
	ratios := func(i int64) torch.Tensor {
		own := m.Slice(logps, 0, i*half, (i+1)*half)
		if !reference.Defined() {
			return m.Unary(torch.SubScalar, own)
		}
		return m.Binary(torch.Sub, own, m.Slice(reference, 0, i*half, (i+1)*half))
	}
	chosen, rejected := f.Let(ratios(0)), f.Let(ratios(1))
	delta := m.Unary(torch.MulScalar, m.Binary(torch.Sub, chosen, rejected))
	return f.Return(m.Mean(m.Unary(torch.Neg, m.Unary(torch.Softplus, delta)), false))
}
