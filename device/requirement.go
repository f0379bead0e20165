package device

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"floodmark/dtype"
)

// Requirement is what a way of computing asks of an NVIDIA card.
type Requirement struct {
	Format     dtype.Format // the elements that are computed with
	Capability string       // the least compute capability, "8.9"
	// Engines that refuse a card below it; empty for every program that runs
	// PyTorch. Others get by without it.
	Engines []string
	Without string // what happens below it where nothing refuses
	Source  string
}

// Requirements lists what formats ask of a card.
func Requirements() []Requirement {
	return []Requirement{
		{Format: dtype.BF16, Capability: "8.0", Engines: []string{"serving", "vllm"},
			Without: "PyTorch imitates bfloat16 below compute capability 8.0: it runs, slowly",
			Source:  "https://github.com/vllm-project/vllm/blob/1c0d9ecf5bad600df3e001bf642dd48c5ed25cc6/vllm/platforms/cuda.py (check_if_supports_dtype); torch.cuda.is_bf16_supported(including_emulation)"},
		{Format: dtype.F8E4M3, Capability: "8.9",
			Source: "https://github.com/pytorch/pytorch/blob/v2.6.0/aten/src/ATen/native/cuda/Blas.cpp (_scaled_mm_allowed_device)"},
	}
}

// Lacks is the requirement of a format that the card is known not to meet, and
// whether the engine refuses it for that. The last result is false where every
// requirement is met, and where the card's compute capability is not known or
// is not NVIDIA's.
func (c Card) Lacks(format dtype.Format, engine string) (r Requirement, refused, lacks bool) {
	own, known := capability(c.ComputeCapability)
	if !known {
		return Requirement{}, false, false
	}
	for _, r := range Requirements() {
		if least, _ := capability(r.Capability); r.Format == format && own < least {
			return r, len(r.Engines) == 0 || slices.Contains(r.Engines, engine), true
		}
	}
	return Requirement{}, false, false
}

// Packing is a way of packing weights that transformers computes on from a compute
// capability on. Below it the weights are unpacked to bfloat16 as they are loaded.
type Packing struct {
	Method     string // quant_method of a checkpoint
	Capability string
	Source     string
}

// Packings lists them.
func Packings() []Packing {
	const quantizers = "https://github.com/huggingface/transformers/blob/main/src/transformers/quantizers/"
	return []Packing{
		{Method: "fp8", Capability: "8.9", Source: quantizers + "quantizer_finegrained_fp8.py (validate_environment)"},
		{Method: "mxfp4", Capability: "7.5", Source: quantizers + "quantizer_mxfp4.py (validate_environment)"},
	}
}

// Unpacks is the packing of a checkpoint that the card is below, and whether it
// is known to be.
func (c Card) Unpacks(method string) (Packing, bool) {
	own, known := capability(c.ComputeCapability)
	if !known {
		own, known = newest()[c.Arch]
	}
	for _, p := range Packings() {
		if least, _ := capability(p.Capability); known && p.Method == method && own < least {
			return p, true
		}
	}
	return Packing{}, false
}

// newest is the highest compute capability of an architecture of NVIDIA's, in
// tenths, for cards of which no own one is known
// (https://developer.nvidia.com/cuda-gpus).
func newest() map[string]int {
	return map[string]int{"Maxwell": 53, "Pascal": 62, "Volta": 72, "Turing": 75, "Ampere": 87}
}

// Rule says what a card does not meet.
func (r Requirement) Rule(c Card) string {
	return fmt.Sprintf("computing in %s needs compute capability %s, and %s has %s (%s)", r.Format, r.Capability, c.Label(), c.ComputeCapability, r.Source)
}

// Label is the card's name, or its id where no driver's name is known.
func (c Card) Label() string {
	if c.Name != "" {
		return c.Name
	}
	return c.ID
}

// capability is a compute capability in tenths: "8.9" is 89, "10.0" is 100.
func capability(text string) (int, bool) {
	major, minor, dotted := strings.Cut(text, ".")
	a, errA := strconv.Atoi(major)
	b, errB := strconv.Atoi(minor)
	return a*10 + b, dotted && errA == nil && errB == nil
}
