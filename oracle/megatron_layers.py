"""Records what mcore's own layers (--transformer-impl local) allocate on one rank.

    PYTHONPATH=MEGATRON-LM python oracle/megatron_layers.py >estimate/megatron/testdata/local/layers.tsv

Two layers of a TransformerBlock run forward and backward twice; the second time is
recorded, in bytes beyond its beginning. The process group is PyTorch's fake one,
whose collectives do nothing, and this process is its first rank. Gradients of
parameters go as soon as they are there, as DistributedDataParallel of Megatron-LM
adds them to its buffer.

What only CUDA has is replaced, by something that allocates as its source says:
Apex' layer norm by tensors of its results and statistics, its masked softmax by a
result and a backward in place, TransformerEngine's rotation of heads by its results.
What is compiled there (bias, dropout and residual; bias and activation) runs as the
operators that it is compiled from, which the rows say as their arguments do. Of
experts every position goes to the next one in turn.
"""

import contextlib
import os
import sys
import types

import torch
import torch.distributed as dist
from torch.profiler import ProfilerActivity, profile, record_function
from torch.testing._internal.distributed.fake_pg import FakeStore

torch.cuda.current_device = lambda: torch.device("cpu")

import megatron.core.models.gpt.gpt_layer_specs as specs
from megatron.core import parallel_state
from megatron.core.models.common.embeddings import rope_utils
from megatron.core.tensor_parallel import random as megatron_random
from megatron.core.transformer import TransformerConfig
from megatron.core.transformer.moe import router as routers
from megatron.core.transformer.transformer_block import TransformerBlock

import events
import shard


class ApexNorm(torch.autograd.Function):
    """FusedLayerNormAffineFunction: the input and two statistics of 32 bits are kept."""

    @staticmethod
    def forward(ctx, x, weight, bias):
        rows = x.numel() // x.size(-1)
        x = x.contiguous()
        ctx.save_for_backward(x, weight, bias, torch.empty(rows), torch.empty(rows))
        return torch.zeros_like(x)

    @staticmethod
    def backward(ctx, gradient):
        x, weight, bias, _, _ = ctx.saved_tensors
        return torch.zeros_like(x), torch.zeros_like(weight), torch.zeros_like(bias)


class FusedLayerNorm(torch.nn.Module):
    returns_residual = False

    def __init__(self, config, hidden_size, eps=1e-5, **_):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(hidden_size, dtype=config.params_dtype))
        self.bias = torch.nn.Parameter(torch.zeros(hidden_size, dtype=config.params_dtype))

    def forward(self, x):
        return ApexNorm.apply(x, self.weight, self.bias)


class Rotation(torch.autograd.Function):
    @staticmethod
    def forward(ctx, t, frequencies):
        return torch.zeros(t.shape, dtype=t.dtype)

    @staticmethod
    def backward(ctx, gradient):
        return torch.zeros(gradient.shape, dtype=gradient.dtype), None


def replaced():
    """What a CPU has not."""
    import megatron.core.fusions.fused_softmax  # noqa: F401
    import megatron.core.models.backends as backends
    import megatron.core.transformer.transformer_block as block

    for module in (backends, specs, block):
        module.LNImpl = FusedLayerNorm
    kernel = types.ModuleType("scaled_upper_triang_masked_softmax_cuda")
    kernel.forward = lambda scores, scale: torch.zeros_like(scores)
    kernel.backward = lambda gradient, result, scale: gradient
    sys.modules[kernel.__name__] = kernel
    batches = types.ModuleType("scaled_masked_softmax_cuda")
    batches.get_batch_per_block = lambda sq, sk, b, np: 8 if sk <= 128 else 4
    sys.modules[batches.__name__] = batches
    rope_utils.fused_apply_rotary_pos_emb = lambda t, frequencies, **_: Rotation.apply(t, frequencies)
    numbers = types.SimpleNamespace(fork=contextlib.nullcontext, is_initialized=lambda: True, get_states=dict, set_states=lambda _: None)
    for module in [m for m in sys.modules.values() if getattr(m, "get_cuda_rng_tracker", None)]:
        module.get_cuda_rng_tracker = lambda *_, **__: numbers
    megatron_random._set_cuda_rng_state = lambda *_, **__: None
    megatron_random._get_all_rng_states = lambda: (None, None, None)
    megatron_random._set_all_rng_states = lambda *_: None
    routers.TopKRouter.sinkhorn_load_balancing = in_turn


def in_turn(self, logits):
    """Sinkhorn's choice, were it as even as it can be."""
    chosen = torch.arange(logits.size(0)) % logits.size(1)
    scores = torch.sigmoid(logits)
    which = torch.zeros_like(logits).int().scatter(1, chosen[:, None], 1).bool()
    return scores * which, which


CASES = {
    "plain": {},
    "bias": {"add_bias_linear": True},
    "dropout": {"hidden_dropout": 0.1, "attention_dropout": 0.1},
    "groups": {"num_query_groups": 2},
    "turned": {"apply_rope_fusion": True},
    "swiglu": {"gated_linear_unit": True, "activation_func": torch.nn.functional.silu},
    "bf16": {"bf16": True, "params_dtype": torch.bfloat16, "pipeline_dtype": torch.bfloat16},
    "bf16-kernel": {"bf16": True, "params_dtype": torch.bfloat16, "pipeline_dtype": torch.bfloat16, "masked_softmax_fusion": True},
    "bf16-wide": {"bf16": True, "params_dtype": torch.bfloat16, "pipeline_dtype": torch.bfloat16, "attention_softmax_in_fp32": True},
    "core": {"recompute_granularity": "selective", "recompute_modules": ["core_attn"]},
    "mlp": {"recompute_granularity": "selective", "recompute_modules": ["mlp"]},
    "full": {"recompute_granularity": "full", "recompute_method": "uniform", "recompute_num_layers": 1},
    "experts": {"num_moe_experts": 4, "moe_router_topk": 1, "moe_router_load_balancing_type": "sinkhorn", "moe_aux_loss_coeff": 0, "moe_token_dispatcher_type": "allgather"},
}
LAYERS, HIDDEN, HEADS, BATCH, LENGTH = 2, 256, 8, 4, 128


def block(more, tensor, sequence):
    given = dict(
        num_layers=LAYERS, hidden_size=HIDDEN, num_attention_heads=HEADS, use_cpu_initialization=True, hidden_dropout=0, attention_dropout=0,
        add_bias_linear=False, tensor_model_parallel_size=tensor, sequence_parallel=sequence, bias_dropout_fusion=False, bias_activation_fusion=False,
        masked_softmax_fusion=False, persist_layer_norm=False, attention_softmax_in_fp32=False, gradient_accumulation_fusion=False, apply_rope_fusion=False,
    )  # fmt: skip
    config = TransformerConfig(**given | more)
    if config.num_moe_experts:
        spec = specs.get_gpt_decoder_block_spec(config, use_transformer_engine=False, normalization="LayerNorm")
    else:
        spec = specs.get_gpt_layer_local_spec(normalization="LayerNorm")
    made = TransformerBlock(config, spec, pre_process=True, post_process=False).to(config.params_dtype)
    for p in made.parameters():
        p.register_post_accumulate_grad_hook(lambda p: setattr(p, "grad", None))
    return config, made


def step(config, made, rows, turned):
    x = torch.zeros(rows, BATCH, HIDDEN, dtype=config.params_dtype, requires_grad=True)
    mask = torch.ones(1, 1, LENGTH, LENGTH, dtype=torch.bool).triu(1)
    angles = torch.zeros(LENGTH, 1, 1, HIDDEN // HEADS) if turned else None
    with record_function(events.MARK + "forward"):
        y = made(x, mask, rotary_pos_emb=angles)
    gradient = torch.zeros_like(y)
    with record_function(events.MARK + "backward"):
        y.backward(gradient)
    with record_function(events.MARK + "end"):
        pass


def record(name, tensor, sequence):
    config, made = block(CASES[name], tensor, sequence)
    rows = LENGTH // tensor if sequence else LENGTH
    step(config, made, rows, name == "turned")
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True, with_stack=True) as p:
        step(config, made, rows, name == "turned")
    found = events.normalise(events.read(p))[0]
    if os.environ.get("TRACE"):
        trace(found)
    levels, start, last, level, peak = [], 0, "", 0, 0
    for what, thing in found:
        if what == "phase":
            levels.append((last, peak, level))
            last, peak = thing, level
            if thing == "forward":
                start = level
            continue
        level += thing.size if what == "born" else -thing.size
        peak = max(peak, level)
    by = {n: (p - start, e - start) for n, p, e in levels}
    parameters = sum(p.numel() for p in made.parameters())
    print(name, tensor, "sequence" if sequence else "whole", parameters, by["forward"][0], by["forward"][1], by["backward"][0], sep="\t", flush=True)


def trace(found):
    level = 0
    for what, thing in found:
        if what == "phase":
            print("phase", thing, file=sys.stderr)
            continue
        level += thing.size if what == "born" else -thing.size
        print(f"{'+' if what == 'born' else '-'}{thing.size:>10} {level:>12} {thing.node() or '-'} {thing.operator()} {thing.module()} {thing.line()}", file=sys.stderr)


def main():
    replaced()
    print("case", "tensor", "stream", "parameters", "forward", "kept", "backward", sep="\t")
    for tensor, sequence in ((1, False), (2, False), (2, True)):
        os.environ |= {"RANK": "0", "LOCAL_RANK": "0", "WORLD_SIZE": str(tensor), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29533"}
        dist.init_process_group("fake", store=FakeStore(), rank=0, world_size=tensor)
        parallel_state.initialize_model_parallel(tensor_model_parallel_size=tensor)
        for name in sys.argv[1:] or CASES:
            if tensor == 1 or name not in ("groups", "swiglu", "mlp", "bf16-wide", "experts"):
                record(name, tensor, sequence)
        parallel_state.destroy_model_parallel()
        dist.destroy_process_group()


if __name__ == "__main__":
    torch.set_num_threads(1)
    main()
