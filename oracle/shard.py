"""Records what one of several data-parallel ranks allocates in a training step.

    python oracle/shard.py CONFIG KIND RANKS [BATCH LENGTH] [--every N [--reentrant]]
        [--after keep|RANKS] [--replicas N] [--row]

KIND is fsdp2, fsdp2-bf16 (gathered in bfloat16, reduced in 32 bits), fsdp2-mixed
(in bfloat16, reduced in 32 bits), fsdp2-2.9 (as PyTorch 2.9 computes layers again),
fsdp1, ddp, ddp-view, or zero1, zero2, zero3 of DeepSpeed with a bucket of 1,000,000 elements and
PyTorch's fused AdamW (DS_ACCELERATOR=cpu). Collectives do nothing: the process
group is PyTorch's fake one, of which this process is the first of RANKS, of zero2 the
last; DDP, which the fake one does not serve, runs over gloo with one rank. What
a rank allocates is the same. torchtune, torchtune-bf16 and torchtune-chunked are its
modules as full_finetune_distributed.py shards them, its layers computed again in
backward, the second in bfloat16 throughout. The second step is recorded, of DeepSpeed alone with an
optimizer; bytes are beyond its beginning.
"""

import argparse
import json
import os
import types

import torch
import torch.distributed as dist
import torch.utils.checkpoint
import transformers
from torch.profiler import ProfilerActivity, profile, record_function
from torch.testing._internal.distributed.fake_pg import FakeStore

import events

# A CPU's _chunk_cat copies what it casts; the kernel of CUDA writes in place.
events.RULES["chunk_cat"] = lambda block: block.operator().startswith("_chunk_cat")


class Segment(torch.nn.Module):
    """Layers that are computed again together in backward; each is sharded by itself."""

    def __init__(self, layers, reentrant):
        super().__init__()
        self.layers, self.reentrant = torch.nn.ModuleList(layers), reentrant

    def forward(self, hidden, position_embeddings, **others):
        def run(hidden, *tables):
            for layer in self.layers:
                hidden = layer(hidden, position_embeddings=tables, **others)
            return hidden

        how = {"use_reentrant": self.reentrant, "preserve_rng_state": False}  # the state of random numbers lies in main memory
        return torch.utils.checkpoint.checkpoint(run, hidden, *position_embeddings, **how)


def in_segments(model, every, reentrant):
    model.config.use_cache = False  # as every loop has it that computes layers again
    layers = list(model.model.layers)
    model.model.layers = torch.nn.ModuleList(Segment(layers[at : at + every], reentrant) for at in range(0, len(layers), every))


def mesh_of(ranks, replicas):
    if replicas == 1:
        return dist.device_mesh.init_device_mesh("cpu", (ranks,))
    return dist.device_mesh.init_device_mesh("cpu", (replicas, ranks // replicas), mesh_dim_names=("replicate", "shard"))


def as_before_2_10():
    """fully_shard as it was where layers are computed again: its source of 2.9 in place of this method."""
    from torch.distributed.fsdp._fully_shard import _fsdp_param_group as groups

    def post_forward(self, module, input, output):
        self.reshard()
        self._record_post_forward()
        self._training_state = groups.TrainingState.IDLE
        return output

    groups.FSDPParamGroup.post_forward = post_forward


def divided(model, kind, options):
    from transformers.models.llama.modeling_llama import LlamaDecoderLayer as Layer

    mesh = mesh_of(options.ranks, options.replicas)
    if kind.startswith("fsdp2"):
        from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

        how = {"mesh": mesh, "mp_policy": MixedPrecisionPolicy()}
        if kind.endswith("bf16"):
            how["mp_policy"] = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
        if kind.endswith("mixed"):
            model.bfloat16()
            how["mp_policy"] = MixedPrecisionPolicy(reduce_dtype=torch.float32)
        if kind.endswith("2.9"):
            as_before_2_10()
        if options.after:
            how["reshard_after_forward"] = False if options.after == "keep" else int(options.after)
        for layer in model.modules():
            if isinstance(layer, Layer):
                fully_shard(layer, **how)
        how.pop("reshard_after_forward", None)  # the outermost module's own default
        return fully_shard(model, **how)
    if kind == "fsdp1":
        from torch.distributed.fsdp import FullyShardedDataParallel, ShardingStrategy
        from torch.distributed.fsdp.wrap import ModuleWrapPolicy

        strategy = {(False, False): "FULL_SHARD", (False, True): "SHARD_GRAD_OP", (True, False): "HYBRID_SHARD", (True, True): "_HYBRID_SHARD_ZERO2"}
        return FullyShardedDataParallel(
            model,
            auto_wrap_policy=ModuleWrapPolicy({Layer}),
            use_orig_params=True,
            device_id=torch.device("cpu"),
            device_mesh=mesh if options.replicas > 1 else None,
            sharding_strategy=ShardingStrategy[strategy[options.replicas > 1, options.after == "keep"]],
        )
    from torch.nn.parallel import DistributedDataParallel

    return DistributedDataParallel(model, gradient_as_bucket_view=kind.endswith("view"))


def torchtune_of(path, kind, ranks, batch, length):
    """torchtune's model and the loss of its recipe, sharded as its recipe for several ranks has it."""
    from functools import partial

    import torchtune_recipe
    from torchtune import training

    import build

    made_in = torch.bfloat16 if kind.endswith("bf16") else torch.float32
    options = types.SimpleNamespace(
        adapter="none", checkpointing=True, loss="chunked" if kind.endswith("chunked") else "plain", operation="training", positions=False, batch=batch, length=length
    )
    fields = build.read(path)
    model = torchtune_recipe.model(fields, options, made_in)
    dist.device_mesh.init_device_mesh("cpu", (ranks,))
    training.shard_model(model=model, shard_conditions=[partial(training.get_shard_conditions, names_to_match=None)], cpu_offload=False, reshard_after_forward=True)
    loop = torchtune_recipe.Loop(model, torchtune_recipe.inputs(fields, options), options)
    return model, lambda model, ids: looped(model, loop)


def looped(model, loop):
    with record_function(events.MARK + "forward"):
        loss = loop.loss()
    with record_function(events.MARK + "backward"):
        loss.backward()
    with record_function(events.MARK + "zero_grad"):
        model.zero_grad(set_to_none=True)


def deepspeed_of(model, stage, group):
    import deepspeed

    zero = {"stage": stage, "reduce_bucket_size": 1_000_000, "overlap_comm": False}
    if stage == 3:
        zero |= {"stage3_param_persistence_threshold": 1, "stage3_prefetch_bucket_size": 0}
    if group:
        zero["zero_hpz_partition_size"] = group
    adam = {"type": "AdamW", "params": {"lr": 1e-3, "torch_adam": True, "fused": True}}
    config = {"train_micro_batch_size_per_gpu": 1, "bf16": {"enabled": True}, "optimizer": adam, "zero_optimization": zero}
    return deepspeed.initialize(model=model, model_parameters=model.parameters(), config=config)[0]


def engine_step(engine, ids):
    with record_function(events.MARK + "forward"):
        loss = engine(input_ids=ids, labels=ids).loss
    with record_function(events.MARK + "backward"):
        engine.backward(loss)
    with record_function(events.MARK + "optimizer"):
        engine.step()


def step(model, ids):
    with record_function(events.MARK + "forward"):
        loss = model(input_ids=ids, labels=ids).loss
    with record_function(events.MARK + "backward"):
        loss.backward()
    with record_function(events.MARK + "zero_grad"):
        model.zero_grad(set_to_none=True)


def arguments():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("config")
    p.add_argument("kind")
    p.add_argument("ranks", type=int)
    p.add_argument("batch", type=int, nargs="?", default=2)
    p.add_argument("length", type=int, nargs="?", default=64)
    p.add_argument("--every", type=int, default=0)
    p.add_argument("--reentrant", action="store_true")
    p.add_argument("--after", default="")
    p.add_argument("--replicas", type=int, default=1)
    p.add_argument("--row", action="store_true")
    return p.parse_args()


def of_transformers(o):
    with open(o.config) as f:
        config = transformers.AutoConfig.for_model(**json.load(f))
    model = transformers.AutoModelForCausalLM.from_config(config).float()
    if o.every:
        in_segments(model, o.every, o.reentrant)
    return model


def prepared(o):
    """The model as its rank has it, and what a step of it is."""
    if o.kind.startswith("torchtune"):
        return torchtune_of(o.config, o.kind, o.ranks, o.batch, o.length)
    model = of_transformers(o)
    if o.kind.startswith("zero"):
        return deepspeed_of(model, int(o.kind[-1]), o.ranks // o.replicas if o.replicas > 1 else 0), engine_step
    return divided(model, o.kind, o), step


def main():
    o = arguments()
    if o.kind.startswith("ddp"):
        dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    else:
        rank = o.ranks - 1 if o.kind == "zero2" else 0
        os.environ |= {"RANK": str(rank), "LOCAL_RANK": "0", "WORLD_SIZE": str(o.ranks), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29533"}
        dist.init_process_group("fake", store=FakeStore(), rank=rank, world_size=o.ranks)
    torch.manual_seed(0)
    model, run = prepared(o)
    ids = torch.randint(0, 50, (o.batch, o.length))
    run(model, ids)
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True, with_stack=True) as p:
        run(model, ids)
    phases = levels(events.normalise(events.read(p))[0])
    if o.row:
        kept = "keep" if o.after == "keep" else o.after or "free"
        how = [o.kind, o.every, "reentrant" if o.reentrant else "again", kept, o.replicas]
        print(*how, *(n for name, peak, end in phases for n in (peak, end)), sep="\t")
        return
    for name, peak, end in phases:
        print(f"{name:12} peak {peak:>12} end {end:>12}")


def levels(found):
    """Each phase with its peak and its end."""
    phases, level, peak, name = [], 0, 0, ""
    for what, thing in found:
        if what == "phase":
            if name:
                phases.append((name, peak, level))
            name, peak = thing, level
            continue
        level += thing.size if what == "born" else -thing.size
        peak = max(peak, level)
    return [*phases, (name, peak, level)]


if __name__ == "__main__":
    main()
