package outside

import (
	"fmt"

	"floodmark/account"
	"floodmark/internal/torch"
	"floodmark/workload"
)

// The ids of the rules that figures of this package name.
const (
	ContextFormula       = "outside.context"
	CommunicationFormula = "outside.communicators"
	GraphFormula         = "outside.graphs"
	WorkspaceFormula     = "outside.workspaces"
)

const (
	mib = int64(1) << 20
	// gib100 is a hundredth of a GiB, the precision of vLLM's start-up log.
	gib100 = (int64(1) << 30) / 100
)

const (
	startups  = "https://github.com/llm-d-incubation/llm-d-planner/pull/205" // 53 starts of vLLM 0.19 on H100
	lazy      = "https://github.com/pytorch/pytorch/pull/86509"
	blackwell = "https://github.com/ggml-org/llama.cpp/pull/23604"
	channels  = "https://github.com/NVIDIA/nccl/issues/986" // memory is linear in the channels, and more over faster links
	workspace = "https://github.com/pytorch/pytorch/pull/89027"
)

func provenance(formula, source string, s account.Scope) account.Provenance {
	return account.Provenance{Origin: account.Observed, Scope: s, Counter: formula, Source: source}
}

// cuda tells the architectures on which CUDA runs from others; an empty name
// is a card that nobody named.
func cuda(arch string) bool {
	switch arch {
	case "", "Pascal", "Volta", "Turing", "Ampere", "Ada", "Hopper", "Blackwell":
		return true
	}
	return false
}

// Context is the CUDA context, loaded libraries and kernels of one process that
// runs PyTorch. Lazy loading (CUDA 11.7 and later) leaves 287,047,680 bytes
// after the first tensor and 666,632,192 without it; kernels that a model then
// loads took 0.24 to 0.46 GiB more beside a context of 0.51 GiB.
func Context(arch string) account.Figure {
	p := provenance(ContextFormula, startups, account.Process)
	switch {
	case !cuda(arch):
		return account.Unknown("what a process holds outside the allocator was not measured on "+arch, p)
	case arch == "Hopper":
		return account.Between(45*gib100, 51*gib100+46*gib100, p)
	case arch == "Blackwell":
		p.Source = blackwell
		return account.Between(287_047_680, 555*mib+46*gib100+32*mib, p)
	}
	p.Source = lazy
	if arch == "Volta" {
		// Before CUDA 11.7 every kernel was loaded: 1,343 MiB on a V100 with CUDA 11.2
		// (https://huggingface.co/docs/transformers/v4.27.0/perf_train_gpu_one).
		return account.Between(287_047_680, 1343*mib, p)
	}
	return account.Between(287_047_680, 666_632_192+46*gib100, p)
}

// Communicators is what NCCL and its like hold for one rank, over a link that
// nobody named: see [CommunicatorsOver].
func Communicators(arch string, mesh workload.Mesh, experts bool) account.Figure {
	return CommunicatorsOver(arch, UnknownLink, mesh, experts)
}

// CommunicatorsOver is what NCCL and its like hold for one rank: buffers of each
// communicator, built as it is first used. They are linear in the channels, of
// which a faster link has more, so that what the switches of H100 need bounds
// every slower link; what Blackwell's switches need was not measured.
func CommunicatorsOver(arch string, link Link, mesh workload.Mesh, experts bool) account.Figure {
	p := provenance(CommunicationFormula, startups, account.Process)
	tensor, pipeline := mesh.TensorParallel > 1, mesh.PipelineParallel > 1
	context, all := mesh.ContextParallel > 1, experts && mesh.ExpertParallel > 1
	if !tensor && !pipeline && !context && !all {
		if mesh.DataParallel > 1 {
			return account.Zero("replicas that generate do not talk to each other", p)
		}
		return account.Zero("one rank has nobody to talk to", p)
	}
	if !bounded(arch, link) {
		return account.Unknown(fmt.Sprintf("what a communicator holds was not measured on %s", arch), p)
	}
	var parts []account.Figure
	add := func(used bool, f account.Figure) {
		if used {
			parts = append(parts, f.As(p))
		}
	}
	add(tensor || context, collective(arch, link, p))
	add(pipeline, neighbours(arch, link, p))
	add(all, account.Between(0, exchange, p))
	sum := account.Sum(p, parts...)
	if arch != "Hopper" {
		sum.Source = channels
	}
	return sum
}

// Replicas is the communicator through which data-parallel ranks exchange
// gradients, and parameters where they divide them.
func Replicas(arch string, link Link) account.Figure {
	return CommunicatorsOver(arch, link, workload.Mesh{TensorParallel: 2}, false)
}

// Alone is the communicator of one rank, for software that makes one: it connects to
// nobody, and holds no more than that of two ranks.
func Alone(arch string) account.Figure {
	p := provenance(CommunicationFormula, startups, account.Process)
	switch {
	case arch == "Ampere":
		p.Source = channels
		return account.Between(0, two, p)
	case bounded(arch, PCIe):
		return account.Between(0, together, p)
	}
	return account.Unknown(fmt.Sprintf("what a communicator holds was not measured on %s", arch), p)
}

// bounded reports a link that is no faster than the switches of H100.
func bounded(arch string, link Link) bool {
	switch arch {
	case "", "Hopper", "Ampere", "Ada", "Turing", "Volta", "Pascal":
		return true
	}
	return arch == "Blackwell" && (link == PCIe || link == Bus)
}

const (
	// exchange is what all-to-all between experts adds at most: 1.06 to 4.34 GB
	// with eight H100 (https://github.com/NVIDIA/nccl/issues/1685).
	exchange = 4_340_000_000
	// together is the most that a communicator for all-reduce held on H100.
	together = (154 + 197) * gib100
	// overBus is the most that a communicator holds where cards have no switches: 10 MiB
	// for each channel to each of six neighbours (ring and tree, both ways:
	// https://github.com/NVIDIA/nccl/issues/1685), of 16 channels, where eight RTX 4090
	// have two (https://github.com/NVIDIA/nccl-tests/issues/307) and eight RTX 5090 four,
	// and 0.25 GiB of kernels.
	overBus = 16*6*10*mib + 256*mib
	// two is what a communicator of two ranks held on A100 over NVLink.
	two = 544_000_000
)

// collective is a communicator for all-reduce. On H100 start-ups held 1.00 to
// 1.54 GiB more before the model with two and four ranks than with one, and up to
// 1.97 GiB more after the first forward pass; on A100 over NVLink a communicator
// was 544 MB with two ranks and 688 MB with four. Over a bus it is far less: two
// RTX 4090 held 0.25 GiB with kernels and all
// (https://github.com/vllm-project/vllm/issues/13061).
func collective(arch string, link Link, p account.Provenance) account.Figure {
	switch {
	case arch == "Hopper" && link == NVLink:
		return account.Between(100*gib100, together, p)
	case arch == "Ampere" && link == NVLink:
		return account.Between(two, together, p)
	case link == Bus:
		return account.Between(0, overBus, p)
	}
	return account.Between(0, together, p)
}

// neighbours is the communicator of a pipeline: 0.92 to 0.97 GiB on H100, and
// 0.07 GiB after the first forward pass.
func neighbours(arch string, link Link, p account.Provenance) account.Figure {
	if arch == "Hopper" && link == NVLink {
		return account.Between(92*gib100, (97+7)*gib100, p)
	}
	return account.Between(0, 1_600_000_000, p)
}

// Graphs is what the capture of CUDA graphs leaves: 0.51 to 1.85 GiB with 51
// and 83 sizes of batch on H100.
func Graphs(arch string) account.Figure {
	p := provenance(GraphFormula, startups, account.Process)
	if arch == "Hopper" || arch == "" {
		return account.Between(51*gib100, 185*gib100+gib100, p)
	}
	return account.Unknown("what captured graphs hold was not measured on "+arch, p)
}

// Workspaces is what cuBLAS and cuBLASLt take from the allocator with their
// first matrix product and keep: what a card has under a release of PyTorch
// ([torch.CardOf]) for each pair of a handle and a stream, of which recordings of one
// process hold one or two; and 4 MiB more where cuBLASLt has its own, 32 MiB from
// compute capability 9.0 on. Where no card or no release is named it spans them.
func Workspaces(arch string, r torch.Release) account.Figure {
	p := provenance(WorkspaceFormula, workspace, account.Allocated)
	if !cuda(arch) {
		return account.Unknown("workspaces of matrix libraries were not measured on "+arch, p)
	}
	least, most := torch.CardOf(arch, r), torch.CardOf(arch, r)
	if arch == "" {
		most = torch.H100()
	}
	if r == (torch.Release{}) {
		least = least.Under(torch.Release{Major: 2})
	}
	own := 4 * mib
	if most.Major >= 9 {
		own = 32 * mib
	}
	return account.Between(least.Workspace, 2*most.Workspace+own, p)
}

// Formulas lists the rules.
func Formulas() []account.Formula {
	return []account.Formula{
		{ID: ContextFormula, Short: "measured by architecture: context, libraries, kernels", Rule: "measured intervals by architecture: CUDA context, libraries and loaded kernels of one process", Source: startups,
			Worked: "H100: 0.45 to 0.51 GiB of context and up to 0.46 GiB of kernels"},
		{ID: CommunicationFormula, Short: "measured: one interval for each kind of parallelism", Rule: "one interval for each kind of parallelism that talks: as measured on H100 and A100 with switches, from nothing up to what H100 held over any slower link, and over a bus to what 16 channels have", Source: startups,
			Worked: "H100 with tensor parallelism: 1.00 to 3.51 GiB; RTX 4090: up to 16 × 6 × 10 MiB + 256 MiB = 1.19 GiB"},
		{ID: GraphFormula, Short: "measured by architecture: what capture leaves", Rule: "measured intervals by architecture: what capture leaves with the driver and in its pool", Source: startups,
			Worked: "H100: 0.51 to 1.86 GiB"},
		{ID: WorkspaceFormula, Short: "8.5 MB, from Hopper on 33.6 MB, once or twice", Rule: "8,519,680 bytes, 33,554,432 on Hopper and since PyTorch 2.12 on Blackwell, once or twice; 4 or 32 MiB more where cuBLASLt has its own", Source: workspace,
			Worked: "4,096 KiB × 2 + 16 KiB × 8 = 8,519,680 bytes"},
	}
}
