"""Records what the experts of a rank allocate between their products.

    TORCHINDUCTOR_FORCE_DISABLE_CACHES=1 PYTHONPATH=MEGATRON-LM python oracle/megatron_experts.py >estimate/megatron/testdata/local/experts.tsv

TEGroupedMLP of Megatron-LM runs forward and backward twice; the second time is
recorded, in bytes beyond its beginning. TransformerEngine's products, which only CUDA
has, are replaced by a function that allocates as grouped_linear.py says: it keeps its
rows where its matrices are trained, its result is new, and so are the gradients of its
rows and of the biases that it adds; those of matrices are in their buffer already.
Fused activations run compiled, by what inductor decides for a GPU: the kernel that reads
what is joined computes it, and nothing is written because a CPU is slow at it.
"""

import sys
import types

import torch
from torch._inductor import config as inductor
from torch._inductor import ir
from torch.profiler import ProfilerActivity, profile, record_function

torch.cuda.current_device = lambda: torch.device("cpu")

from megatron.core.fusions.fused_bias_geglu import quick_gelu
from megatron.core.transformer.moe.experts import TEGroupedMLP

import events

inductor.force_pointwise_cat = True
ir.is_cpu = lambda _: False

EXPERTS, ROWS, HIDDEN, WIDTH = 4, 512, 256, 320


class Product(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, trained, out, *biases):
        ctx.width, ctx.biases = x.size(1), len(biases)
        ctx.save_for_backward(*([x] if trained else []), *biases)
        return x.new_zeros(x.size(0), out)

    @staticmethod
    def backward(ctx, gradient):
        biases = ctx.saved_tensors[len(ctx.saved_tensors) - ctx.biases :]
        return gradient.new_zeros(gradient.size(0), ctx.width), None, None, *[torch.zeros_like(b) if b.requires_grad else None for b in biases]


class Grouped(torch.nn.Module):
    """TEGroupedLinear: it adds its biases or gives them to its caller."""

    def __init__(self, out, trained, biased, given):
        super().__init__()
        self.out, self.trained, self.given = out, trained, given
        self.biases = torch.nn.ParameterList(torch.nn.Parameter(torch.zeros(out, dtype=torch.bfloat16), requires_grad=trained) for _ in range(EXPERTS if biased else 0))

    def forward(self, x, tokens):
        biases = list(self.biases)
        y = Product.apply(x, self.trained, self.out, *([] if self.given else biases))
        return y, biases if self.given and biases else None


CASES = {
    "silu": {"quick": False, "biased": False},
    "quick": {"clamp": None, "biased": False},
    "clamped": {"biased": False},
    "biases": {},
    "narrow": {"probabilities": torch.bfloat16},
    "frozen": {"trained": False},
    "unfused": {"fused": False},
    "unfused-silu": {"fused": False, "quick": False, "clamp": None, "biased": False},
}


def made(quick=True, clamp=7.0, biased=True, trained=True, fused=True, probabilities=torch.float32):
    m = TEGroupedMLP.__new__(TEGroupedMLP)
    torch.nn.Module.__init__(m)
    m.config = types.SimpleNamespace(
        fp8=None, fp4=None, moe_router_padding_for_quantization=False, moe_token_dispatcher_type="alltoall", moe_use_grouped_tensor=False, moe_apply_probs_on_input=False, delay_offload_until_cuda_graph=False, gated_linear_unit=True, moe_mlp_glu_interleave_size=None,
        use_te_activation_func=False, bias_activation_fusion=fused, activation_func_fp8_input_store=False, activation_func_clamp_value=clamp if quick else None,
        glu_linear_offset=1.0 if quick else 0.0, use_fused_weighted_squared_relu=False, activation_func=quick_gelu if quick else torch.nn.functional.silu,
    )  # fmt: skip
    m.activation_func = m.config.activation_func
    m._use_grouped_tensor = m._with_fused_impl = m.offload_expert_fc1 = m.offload_moe_act = m.offload_fused_group_mlp = False
    m.activation_recompute = False
    m.linear_fc1 = Grouped(2 * WIDTH, trained, biased, False)
    m.linear_fc2 = Grouped(HIDDEN, trained, biased, True)
    for p in m.parameters():
        if p.requires_grad:
            p.register_post_accumulate_grad_hook(lambda p: setattr(p, "grad", None))
    return m, probabilities


def step(m, format):
    x = torch.zeros(ROWS, HIDDEN, dtype=torch.bfloat16, requires_grad=True)
    shares = torch.zeros(ROWS, 1, dtype=format, requires_grad=True)
    tokens = torch.full((EXPERTS,), ROWS // EXPERTS)
    with record_function(events.MARK + "forward"):
        y, _ = m(x, tokens, shares.clone().squeeze(1))
    gradient = torch.zeros_like(y)
    with record_function(events.MARK + "backward"):
        y.backward(gradient)
    with record_function(events.MARK + "end"):
        pass


def record(name):
    m, format = made(**CASES[name])
    step(m, format)
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True, with_stack=True) as p:
        step(m, format)
    level, start, last, peak, by = 0, 0, "", 0, {}
    for what, thing in events.normalise(events.read(p))[0]:
        if what == "phase":
            by[last] = (peak - start, level - start)
            last, peak = thing, level
            if thing == "forward":
                start = level
            continue
        level += thing.size if what == "born" else -thing.size
        peak = max(peak, level)
        if len(sys.argv) > 1:
            print(f"{'+' if what == 'born' else '-'}{thing.size:>10} {level:>12} {thing.node() or '-'} {thing.operator()} {thing.line()}", file=sys.stderr)
    print(name, by["forward"][0], by["forward"][1], by["backward"][0], sep="\t", flush=True)


def main():
    print("case", "forward", "kept", "backward", sep="\t")
    for name in sys.argv[1:] or CASES:
        record(name)


if __name__ == "__main__":
    torch.set_num_threads(1)
    main()
