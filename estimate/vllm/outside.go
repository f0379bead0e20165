package vllm

import (
	"floodmark/account"
	"floodmark/estimate"
	"floodmark/estimate/outside"
	"floodmark/parallel"
)

const (
	mib    = int64(1) << 20
	gib    = int64(1) << 30
	gib100 = gib / 100

	startups     = "https://github.com/llm-d-incubation/llm-d-planner/pull/205" // 53 starts of vLLM 0.19 on H100
	handleSource = "https://github.com/pytorch/pytorch/pull/89027"
)

func hundredths(low, high int64, p account.Provenance) account.Figure {
	return account.Between(low*gib100, high*gib100+gib100, p)
}

// measured reports the card on which the start-ups were measured.
func measured(arch string) bool { return arch == "Hopper" }

// cuda reports cards on which the tables can stand, though wider.
func cuda(arch string) bool {
	switch arch {
	case "", "Pascal", "Volta", "Turing", "Ampere", "Ada", "Hopper", "Blackwell":
		return true
	}
	return false
}

// initial is what is in use on the card when the engine first looks: its own
// context, and the communicators that it has built by then. On H100 0.51 GiB for
// one rank, 1.51 to 1.55 with tensor parallelism, 1.43 to 1.48 with stages, and
// 0.46 to 0.52 more where ranks share experts, which have a communicator of their
// own.
func initial(in estimate.Input, plan parallel.RankPlan) account.Figure {
	p := provenance(initialFormula, startups, account.Process)
	p.Origin = account.Observed
	tensor, stages := plan.Mesh.TensorParallel > 1, plan.Mesh.PipelineParallel > 1
	switch {
	case !cuda(in.Memory.Arch):
		return account.Unknown("what a process holds before the model was not measured on "+in.Memory.Arch, p)
	case !measured(in.Memory.Arch):
		one := account.Between(107*mib, 700*mib, p)
		if !tensor && !stages {
			return one
		}
		return account.Sum(p, one, account.Between(0, 160*gib100, p))
	case tensor && hasExperts(in.Model):
		return hundredths(199, 206, p)
	case tensor:
		return hundredths(150, 154, p)
	case stages:
		return hundredths(143, 147, p)
	}
	return hundredths(50, 51, p)
}

// nonTorch is what the forward pass adds outside the allocator: kernels, and the
// buffers of collectives. On H100 0.24 to 0.27 GiB (Granite 0.46) for one rank,
// 2.06 to 2.21 with tensor parallelism, 0.07 with stages alone.
func (o *options) nonTorch(in estimate.Input, plan parallel.RankPlan) account.Figure {
	p := provenance(nonTorchFormula, startups, account.Process)
	p.Origin = account.Observed
	tensor, stages := plan.Mesh.TensorParallel > 1, plan.Mesh.PipelineParallel > 1
	var f account.Figure
	switch {
	case !cuda(in.Memory.Arch):
		return account.Unknown("what the forward pass takes outside the allocator was not measured on "+in.Memory.Arch, p)
	case measured(in.Memory.Arch) && !o.extrapolated:
		switch {
		case tensor:
			f = hundredths(205, 220, p)
		case stages:
			f = hundredths(6, 7, p)
		default:
			f = hundredths(23, 45, p)
		}
	case tensor && o.wholeCard:
		f = hundredths(5, 360, p) // 3.58 GiB with the context, vllm 10511
	case tensor:
		f = hundredths(5, 220, p)
	default:
		f = hundredths(2, 55, p)
	}
	if o.wholeCard {
		return account.Sum(p, f, account.Between(0, 2*gib, p))
	}
	return f
}

// graphs is what capture leaves. It grows with the layers: on H100, with 51
// sizes, 0.25 + 0.0105 to 0.42 + 0.018 GiB a layer, 0.1 more beside a tower; with
// experts 0.7 to 1.65. With 83 sizes gpt-oss-20b took 1.55 on two ranks and 1.84
// on one.
func (o *options) graphs(in estimate.Input, plan parallel.RankPlan) account.Figure {
	p := provenance(outside.GraphFormula, startups, account.Process)
	p.Origin = account.Fitted
	sizes, _ := o.graphSizes(in.Model)
	if sizes == 0 {
		return account.Zero("no CUDA graph is captured", p)
	}
	if !cuda(in.Memory.Arch) {
		return account.Unknown("what captured graphs hold was not measured on "+in.Memory.Arch, p)
	}
	layers := int64(len(plan.Layers))
	low, high := 25*gib100+layers*gib*105/10000, 42*gib100+layers*gib*180/10000
	if seesImages(in.Model) {
		high += 10 * gib100
	}
	if hasExperts(in.Model) {
		low, high = 70*gib100, 165*gib100
	}
	if sizes > 51 {
		high = high * sizes / 51
		if layers > 0 && packedExperts(in) {
			low, high = 175*gib100*layers/24, 193*gib100*layers/24
			if plan.Mesh.TensorParallel > 1 {
				low, high = 147*gib100*layers/24, 163*gib100*layers/24
			}
		}
	} else if sizes < 51 {
		low = low * sizes / 51 / 2
	}
	if !measured(in.Memory.Arch) || o.extrapolated {
		low, high = min(low, 50*mib), high*13/10+gib/4
	}
	return account.Between(low, high, p)
}

// packedExperts reports MXFP4 experts, whose kernel lays them out anew.
func packedExperts(in estimate.Input) bool {
	return in.Model.Quantised != nil && in.Model.Quantised.Method == "mxfp4"
}

// handles is the workspace of the matrix library, which comes with the first
// product and stays.
func handles(arch string) account.Figure {
	p := account.Provenance{Origin: account.Observed, Scope: account.Requested}
	switch {
	case arch == "Hopper":
		return account.Exact(32*mib, p)
	case !cuda(arch):
		return account.Between(0, 128*mib, p)
	}
	return account.Between(8*mib, 40*mib, p)
}

// held is what the allocator holds beyond the tensors once the trial run is over
// and its cache is given back: segments of which a part is in use. The budget
// does not pay for it. After the start-ups on H100 it was 0.16 to 1.32 GiB on one
// rank, 0.38 to 0.45 with tensor parallelism; where MXFP4 experts were laid out
// anew 2.02 on one rank and 1.62 to 1.83 on two.
func (o *options) held(in estimate.Input, plan parallel.RankPlan) account.Figure {
	p := provenance(heldFormula, startups, account.Process)
	p.Origin = account.Fitted
	tensor := plan.Mesh.TensorParallel > 1
	var low, high int64
	switch {
	case !cuda(in.Memory.Arch):
		return account.Unknown("what the allocator keeps was not measured on "+in.Memory.Arch, p)
	case packedExperts(in):
		// Half of gpt-oss-20b's is two copies of its logits; the rest is the
		// remains of loading.
		low, high = 160*gib100, 185*gib100
		if !tensor {
			low, high = 190*gib100, 205*gib100
		}
		if !o.likeGptOss(in) {
			low = 15 * gib100
		}
	case tensor:
		low, high = 10*gib100, 50*gib100
	default:
		low, high = 10*gib100, 150*gib100
	}
	if !measured(in.Memory.Arch) || o.extrapolated || o.maxSeqs != 1024 || o.BatchedTokens != 8192 {
		// Segments that are held are those of logits and of a step's positions.
		low = 0
		steps := max(float64(o.maxSeqs)/1024, float64(o.BatchedTokens)/8192)
		high = 60*gib100 + int64(1.5*steps*float64(high))
	}
	return account.Between(low, high, p)
}

// likeGptOss reports a model of the shape on which the remains were measured.
func (o *options) likeGptOss(in estimate.Input) bool {
	return in.Model.Vocab >= 200_000 && in.Model.Type == "gpt_oss"
}
