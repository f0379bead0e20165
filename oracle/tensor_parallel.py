"""Records what one of several tensor-parallel ranks of torchtitan allocates.

    python oracle/tensor_parallel.py CONFIG TENSOR DATA [BATCH LENGTH]
        [--checkpointing full|selective] [--whole-logits] [--row | --trace]

Of a mesh of DATA by TENSOR ranks this process is the first. Collectives do nothing:
the process group is PyTorch's fake one, and what a rank allocates is the same. The
plan is that of parallelize_llama.py: columns of query, key, value, gate, up and head,
rows of the output projection, of down and of the embedding, norms over parts of the
sequence; fully_shard goes around each layer and around the whole where DATA is more
than one. --whole-logits turns loss parallelism off. The second step is recorded, in
bytes beyond its beginning.
"""

import argparse
import contextlib
import os
import types

import torch
import torch.distributed as dist
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import Replicate, Shard
from torch.distributed.tensor.parallel import ColwiseParallel, PrepareModuleInput, RowwiseParallel, SequenceParallel, loss_parallel, parallelize_module
from torch.profiler import ProfilerActivity, profile, record_function
from torch.testing._internal.distributed.fake_pg import FakeStore

import build
import events
import shard
import torchtitan_recipe


def across(model, mesh, parallel_loss):
    """parallelize_llama's plan; it was the same from June 2024 to 2025."""
    out = {"output_layouts": Shard(-1), "use_local_output": False} if parallel_loss else {"output_layouts": Replicate()}
    plan = {
        "tok_embeddings": RowwiseParallel(input_layouts=Replicate(), output_layouts=Shard(1)),
        "norm": SequenceParallel(),
        "output": ColwiseParallel(input_layouts=Shard(1), **out),
    }
    parallelize_module(model, mesh, {name: how for name, how in plan.items() if getattr(model, name) is not None})
    for layer in model.layers.values():
        inner = {
            "attention_norm": SequenceParallel(),
            "attention": PrepareModuleInput(input_layouts=(Shard(1), None), desired_input_layouts=(Replicate(), None)),
            "attention.wo": RowwiseParallel(output_layouts=Shard(1)),
            "ffn_norm": SequenceParallel(),
            "feed_forward": PrepareModuleInput(input_layouts=(Shard(1),), desired_input_layouts=(Replicate(),)),
            "feed_forward.w2": RowwiseParallel(output_layouts=Shard(1)),
        }
        for name in ("attention.wq", "attention.wk", "attention.wv", "feed_forward.w1", "feed_forward.w3"):
            inner[name] = ColwiseParallel()
        parallelize_module(layer, mesh, inner)


def model_of(o, mesh):
    fields = build.read(o.config)
    options = types.SimpleNamespace(checkpointing="", length=o.length)
    made = torchtitan_recipe.model(fields, options, torch.float32)
    if o.tensor > 1:
        across(made, mesh["tensor"], not o.whole_logits)
    options.checkpointing = o.checkpointing
    torchtitan_recipe.checkpoints(made, options)
    if o.data > 1:
        last = len(made.layers) - 1
        for name, layer in made.layers.items():
            fully_shard(layer, mesh=mesh["data"], reshard_after_forward=int(name) < last)
        fully_shard(made, mesh=mesh["data"], reshard_after_forward=True)
    return made


def step(model, loop, o):
    context = loss_parallel() if o.tensor > 1 and not o.whole_logits else contextlib.nullcontext()
    with context:
        with record_function(events.MARK + "forward"):
            loss = loop.loss()
        with record_function(events.MARK + "backward"):
            loss.backward()
    with record_function(events.MARK + "zero_grad"):
        model.zero_grad(set_to_none=True)


def arguments():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("config")
    p.add_argument("tensor", type=int)
    p.add_argument("data", type=int)
    p.add_argument("batch", type=int, nargs="?", default=2)
    p.add_argument("length", type=int, nargs="?", default=64)
    p.add_argument("--checkpointing", choices=["", "full", "selective"], default="")
    p.add_argument("--whole-logits", action="store_true")
    p.add_argument("--row", action="store_true")
    p.add_argument("--trace", action="store_true")
    return p.parse_args()


def main():
    o = arguments()
    ranks = o.tensor * o.data
    os.environ |= {"RANK": "0", "LOCAL_RANK": "0", "WORLD_SIZE": str(ranks)}
    dist.init_process_group("fake", store=FakeStore(), rank=0, world_size=ranks)
    torch.manual_seed(0)
    mesh = dist.device_mesh.init_device_mesh("cpu", (o.data, o.tensor), mesh_dim_names=("data", "tensor"))
    made = model_of(o, mesh)
    call = torchtitan_recipe.inputs(build.read(o.config), o)
    loop = torchtitan_recipe.Loop(made, call, o)
    step(made, loop, o)
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True, with_stack=True) as p:
        step(made, loop, o)
    found = events.normalise(events.read(p))[0]
    phases = shard.levels(found)
    if o.trace:
        trace(found)
    elif o.row:
        how = [build.read(o.config)["vocab_size"], o.tensor, o.data, o.batch, o.checkpointing or "none", "gathered" if o.whole_logits else "plain"]
        print(*how, *(n for name, peak, end in phases for n in (peak, end)), sep="\t")
    else:
        for name, peak, end in phases:
            print(f"{name:12} peak {peak:>12} end {end:>12}")


def trace(found):
    level, names = 0, {}
    for at, (what, thing) in enumerate(found):
        if what == "phase":
            print("phase", thing)
            continue
        level += thing.size if what == "born" else -thing.size
        if what == "born":
            names[id(thing)] = at
            print(f"{at:6} +{thing.size:<10} {level:>12} {thing.operator()} | {thing.node()} | {thing.module()} | {thing.line()}")
        else:
            print(f"{at:6} -{thing.size:<10} {level:>12} of {names.get(id(thing), 'older')}")


if __name__ == "__main__":
    main()
