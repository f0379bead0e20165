"""Records what one of several data-parallel ranks allocates in a training step.

    python oracle/shard.py CONFIG KIND RANKS [BATCH LENGTH]

KIND is fsdp2, fsdp2-bf16 (gathered in bfloat16, reduced in 32 bits), fsdp1, ddp,
ddp-view, or zero1, zero2, zero3 of DeepSpeed with a bucket of 1,000,000 elements and
PyTorch's fused AdamW (DS_ACCELERATOR=cpu). Collectives do nothing: the process
group is PyTorch's fake one, of which this process is the first of RANKS, of zero2 the
last; DDP, which the fake one does not serve, runs over gloo with one rank. What
a rank allocates is the same. torchtune, torchtune-bf16 and torchtune-chunked are its
modules as full_finetune_distributed.py shards them, its layers computed again in
backward, the second in bfloat16 throughout. The second step is recorded, of DeepSpeed alone with an
optimizer; bytes are beyond its beginning.
"""

import json
import os
import sys
import types

import torch
import torch.distributed as dist
import transformers
from torch.profiler import ProfilerActivity, profile, record_function
from torch.testing._internal.distributed.fake_pg import FakeStore

import events

# A CPU's _chunk_cat copies what it casts; the kernel of CUDA writes in place.
events.RULES["chunk_cat"] = lambda block: block.operator().startswith("_chunk_cat")


def divided(model, kind, ranks):
    layers = model.model.layers
    if kind.startswith("fsdp2"):
        from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

        policy = MixedPrecisionPolicy()
        if kind.endswith("bf16"):
            policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
        mesh = dist.device_mesh.init_device_mesh("cpu", (ranks,))
        for layer in layers:
            fully_shard(layer, mesh=mesh, mp_policy=policy)
        return fully_shard(model, mesh=mesh, mp_policy=policy)
    if kind == "fsdp1":
        from torch.distributed.fsdp import FullyShardedDataParallel
        from torch.distributed.fsdp.wrap import ModuleWrapPolicy

        return FullyShardedDataParallel(
            model, auto_wrap_policy=ModuleWrapPolicy({type(layers[0])}), use_orig_params=True, device_id=torch.device("cpu")
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


def deepspeed_of(model, stage):
    import deepspeed

    zero = {"stage": stage, "reduce_bucket_size": 1_000_000, "overlap_comm": False}
    if stage == 3:
        zero |= {"stage3_param_persistence_threshold": 1, "stage3_prefetch_bucket_size": 0}
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


def main(path, kind, ranks, batch=2, length=64):
    if kind.startswith("ddp"):
        dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    else:
        rank = int(ranks) - 1 if kind == "zero2" else 0
        os.environ |= {"RANK": str(rank), "LOCAL_RANK": "0", "WORLD_SIZE": ranks, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29533"}
        dist.init_process_group("fake", store=FakeStore(), rank=rank, world_size=int(ranks))
    torch.manual_seed(0)
    if kind.startswith("torchtune"):
        model, run = torchtune_of(path, kind, int(ranks), int(batch), int(length))
    else:
        with open(path) as f:
            config = transformers.AutoConfig.for_model(**json.load(f))
        model, run = transformers.AutoModelForCausalLM.from_config(config).float(), step
    if kind.startswith("zero"):
        model, run = deepspeed_of(model, int(kind[-1])), engine_step
    elif not kind.startswith("torchtune"):
        model = divided(model, kind, int(ranks))
    ids = torch.randint(0, 50, (int(batch), int(length)))
    run(model, ids)
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True, with_stack=True) as p:
        run(model, ids)
    level, peak, name = 0, 0, ""
    for what, thing in events.normalise(events.read(p))[0]:
        if what == "phase":
            if name:
                print(f"{name:12} peak {peak:>12} end {level:>12}")
            name, peak = thing, level
            continue
        level += thing.size if what == "born" else -thing.size
        peak = max(peak, level)
    print(f"{name:12} peak {peak:>12} end {level:>12}")


if __name__ == "__main__":
    main(*sys.argv[1:])
