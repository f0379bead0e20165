"""Records what one of several data-parallel ranks allocates in a training step.

    python oracle/shard.py CONFIG KIND RANKS [BATCH LENGTH]

KIND is fsdp2, fsdp2-bf16 (gathered in bfloat16, reduced in 32 bits), fsdp1, ddp or
ddp-view. Collectives do nothing: the process group is PyTorch's fake one, of which
this process is the first of RANKS; DDP, which the fake one does not serve, runs
over gloo with one rank. What a rank allocates is the same. The second step is
recorded, without an optimizer; bytes are beyond its beginning.
"""

import json
import sys

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
        dist.init_process_group("fake", store=FakeStore(), rank=0, world_size=int(ranks))
    with open(path) as f:
        config = transformers.AutoConfig.for_model(**json.load(f))
    torch.manual_seed(0)
    model = divided(transformers.AutoModelForCausalLM.from_config(config).float(), kind, int(ranks))
    ids = torch.randint(0, 50, (int(batch), int(length)))
    step(model, ids)
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True, with_stack=True) as p:
        step(model, ids)
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
