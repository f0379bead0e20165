package training

import (
	"slices"

	"floodmark/account"
	"floodmark/bytesize"
	"floodmark/dtype"
	"floodmark/estimate/eager"
	"floodmark/estimate/eager/modules"
	"floodmark/model"
	"floodmark/timeline"
	"floodmark/workload"
)

// generate is generation by the model that is trained (generate of transformers), with all
// that training keeps still there: prompts at work, then the last position that is
// generated. What it holds is that of a generation by itself ([eager.Beside]), without the
// weights, and with what passes through trained weights make beside it. Of its tensors the
// caches of sequences are certain; all else may come from blocks that the steps left.
func (j *job) generate() {
	w := j.generated()
	at := func(d workload.Dimension) int64 { n, _ := w.Dimension(d); return n }
	if why := j.ungenerated(w); why != "" {
		i := len(j.tl.Phases)
		j.span(account.PhaseGenerate, 0, func() {})
		j.bound(j.term(account.TermKVCache, account.CategoryKVCache, requested("")), i, int32(i), account.Unknown(why, requested("")))
		j.unpredicted(i, i, why)
		return
	}
	in := j.in
	in.Workload = &w
	terms, prefill, decode := eager.Beside(in)
	for _, moment := range []struct {
		phase     account.PhaseID
		bounds    []timeline.Bound
		positions int64
	}{{account.PhasePrefill, prefill, at(workload.Context)}, {account.PhaseGenerate, decode, 1}} {
		j.span(moment.phase, 0, func() {
			var cache []uint32
			for _, x := range moment.bounds {
				t := terms[x.Term]
				term := j.term(t.ID, t.Category, t.Provenance)
				f := x.Figure
				if t.ID == account.TermKVCache || t.ID == account.TermRecurrentState {
					cache = append(cache, j.cached(term, j.certain(t.ID, f))...)
					f = beyond(f, j.certain(t.ID, f))
				}
				j.here(term, beyond(f, 0))
			}
			positions, fits := bytesize.Mul(moment.positions, at(workload.Sequences))
			most, counted := j.passing(positions)
			j.here(j.temporaries(), beyond(account.Checked(most, fits && counted, requested(temporaryFormula)), 0))
			j.free(cache...)
		})
	}
}

// generated is the workload as one that generates: with autocast over weights in 32 bits
// what lies between products may be in 32 bits too.
func (j *job) generated() workload.Workload {
	w := *j.in.Workload
	w.Operation = workload.Generation
	w.Precision.Compute = j.compute()
	if j.wide() {
		w.Precision.Compute = dtype.F32
	}
	if w.Engine.Name != string(modules.Transformers) {
		w.Engine = workload.Engine{}
	}
	sequences, _ := w.Dimension(workload.Sequences)
	batch, _ := w.Dimension(workload.Batch)
	in := workload.Input{Name: "generation", Dimensions: map[workload.Dimension]int64{workload.Sequences: max(sequences, batch)}}
	for _, d := range []workload.Dimension{workload.Context, workload.Generated, workload.Images, workload.Resolution, workload.EncoderLength} {
		if n, said := w.Dimension(d); said {
			in.Dimensions[d] = n
		}
	}
	w.Inputs = []workload.Input{in}
	return w
}

// wide reports autocast over parameters of the model in 32 bits.
func (j *job) wide() bool {
	return j.train.Autocast != dtype.Unknown && slices.ContainsFunc(j.in.Model.Tensors, func(t model.Tensor) bool {
		return t.Role.Category() == account.CategoryParameter && (t.Stored == dtype.F32 || j.casts(t))
	})
}

// ungenerated is why generation is not predicted; empty where it is.
func (j *job) ungenerated(w workload.Workload) string {
	own, _ := j.software()
	generated, _ := w.Dimension(workload.Generated)
	sequences, _ := w.Dimension(workload.Sequences)
	switch {
	case generated == 0 || sequences == 0:
		return "the workload does not say how much is generated (generated, sequences)"
	case own != modules.Transformers:
		return "generation by " + string(own) + " is not modelled"
	case j.gathers():
		return "generation by ranks that gather parameters is not modelled"
	case j.in.Plan.Mesh.Ranks() > max(1, j.in.Plan.Mesh.DataParallel):
		return "generation by ranks that share layers is not modelled beside training"
	}
	return j.undescribed()
}

// certain is the least that a cache takes: where keys may be kept in 32 bits or in the
// format of autocast, that of the narrower.
func (j *job) certain(id account.TermID, f account.Figure) int64 {
	if id == account.TermKVCache && j.wide() {
		return f.Low() / int64(dtype.F32.Bits()) * int64(j.train.Autocast.Bits())
	}
	return f.Low()
}

// cached makes a cache: two tensors of each layer, as long as each other.
func (j *job) cached(term uint32, bytes int64) []uint32 {
	n := 2 * int64(max(1, len(j.in.Plan.Layers)))
	var list []uint32
	for left := bytes; left > 0; {
		block := min(left, bytesize.CeilDiv(bytes, n))
		list = append(list, j.born(term, block))
		left -= block
	}
	return list
}

// beyond is what a figure may be more than some bytes that are counted.
func beyond(f account.Figure, counted int64) account.Figure {
	high, known := f.High()
	switch {
	case f.Status() == account.StatusZero:
		return f
	case !known:
		return account.Unknown(f.Reason(), f.Provenance)
	}
	return account.Between(0, max(0, high-counted), f.Provenance)
}

// passing is the most that passes of so many positions make through weights that are
// trained, beside those of a generation by itself: copies of matrices in 32 bits that
// autocast makes, those of trained ones all kept, and of others one; the largest packed
// matrix in 16 and in 32 bits; and of an adapter what [job.adapting] counts. False on
// overflow.
func (j *job) passing(positions int64) (int64, bool) {
	var packed, cast int64
	copies := []int64{}
	wide := func(p *parameter) int64 {
		if j.train.Autocast == dtype.Unknown || p.format != dtype.F32 || len(p.shape) < 2 || p.packed {
			return 0
		}
		return p.in(j.train.Autocast)
	}
	for _, p := range j.tuned {
		copies = append(copies, wide(p))
	}
	for _, p := range j.held {
		if p.packed {
			packed = max(packed, p.elements)
		}
		if !p.trained {
			cast = max(cast, wide(p))
		}
	}
	adapter, fits := j.adapting(positions)
	sum, also := bytesize.Add(append(copies, cast, packed*(2+4), adapter)...)
	return sum, fits && also
}

// adapting is the most that an adapter makes in a pass of so many positions, of one module
// at a time: its input and three outputs in 32 bits and what lies between its matrices
// (forward of peft/tuners/lora/layer.py), and of DoRA four matrices of the module, as it
// makes them for the norm (peft/tuners/lora/dora.py). Worked number: 16 positions from
// 4,096 to 14,336 elements over a rank of 8 are 16 · 4 · (4,096 + 3 · 14,336 + 8) =
// 3,015,168 bytes.
func (j *job) adapting(positions int64) (most int64, fits bool) {
	t := j.train.Tuning
	if t == nil {
		return 0, true
	}
	for _, m := range t.Modules {
		shape := j.in.Model.Tensors[m.Tensor].Shape
		if len(shape) < 2 {
			continue
		}
		in, out, matrices := shape[len(shape)-1], shape[len(shape)-2], int64(0)
		if t.Kind == workload.DoRA {
			matrices = 4 * 4 * in * out
		}
		one, fits := bytesize.Mul(positions, 4, in+3*out+int64(t.Rank))
		if one, added := bytesize.Add(one, matrices); fits && added {
			most = max(most, one)
			continue
		}
		return 0, false
	}
	return most, true
}
