"""Records what one of several tensor-parallel ranks of torchtitan allocates.

    python oracle/tensor_parallel.py CONFIG TENSOR DATA [BATCH LENGTH]
        [--checkpointing full|selective] [--whole-logits] [--row | --trace]
        [--layers N] [--stages N --stage N --schedule 1F1B|GPipe|Interleaved1F1B --micro N]

Of a mesh of DATA by TENSOR ranks this process is the first. Collectives do nothing:
the process group is PyTorch's fake one, and what a rank allocates is the same. The
plan is that of parallelize_llama.py: columns of query, key, value, gate, up and head,
rows of the output projection, of down and of the embedding, norms over parts of the
sequence; fully_shard goes around each layer and around the whole where DATA is more
than one. --whole-logits turns loss parallelism off. The second step is recorded, in
bytes beyond its beginning.

With --stages this process is one rank of a pipeline, as torchtitan of 2024 splits its
Llama, and BATCH is that of all micro-batches: what others send never comes, and its
buffers are there. The stages are those of PyTorch 2.6, whose package
torch/distributed/pipelining lies on the path as pipelining26.
"""

import argparse
import contextlib
import os
import types

import torch
import torch.distributed as dist
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
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


def fields_of(o):
    fields = build.read(o.config)
    return fields | {"num_hidden_layers": o.layers or fields["num_hidden_layers"]}


def model_of(o, mesh):
    fields = fields_of(o)
    options = types.SimpleNamespace(checkpointing="", length=o.length)
    made = torchtitan_recipe.model(fields, options, torch.float32)
    if o.tensor > 1:
        across(made, mesh["tensor"], not o.whole_logits)
    options.checkpointing = o.checkpointing
    torchtitan_recipe.checkpoints(made, options)
    sharded(made, o, mesh)
    return made


def sharded(made, o, mesh):
    if o.data == 1:
        return
    last = max(int(name) for name in made.layers)
    for name, layer in made.layers.items():
        fully_shard(layer, mesh=mesh["data"], mp_policy=policy(o), reshard_after_forward=o.stages == 1 and int(name) < last)
    fully_shard(made, mesh=mesh["data"], mp_policy=policy(o), reshard_after_forward=o.stages == 1)


def policy(o):
    return MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32) if o.mixed else MixedPrecisionPolicy()


def pieces_of(layers, pieces):
    """generate_split_points: what does not divide evenly goes to the second piece and those behind it."""
    base, extra = divmod(layers, pieces)
    counts = [base + (0 < i <= extra) for i in range(pieces)]
    ends = [sum(counts[: i + 1]) for i in range(pieces)]
    return [(end - count, end) for count, end in zip(counts, ends)]


def stage_of(o, mesh):
    """The schedule of one rank, and its pieces."""
    from pipelining26.schedules import get_schedule_class
    from pipelining26.stage import PipelineStage

    fields = fields_of(o)
    local = 2 if o.schedule == "Interleaved1F1B" else 1
    spans = pieces_of(fields["num_hidden_layers"], o.stages * local)
    size, form = o.batch // o.micro, torch.bfloat16 if o.mixed else torch.float32
    hidden = torch.empty(size, o.length // o.tensor, fields["hidden_size"], dtype=form, device="meta")
    logits = torch.empty(size, o.length, fields["vocab_size"] // o.tensor, dtype=form, device="meta")
    tokens = torch.empty(size, o.length, dtype=torch.int64, device="meta")
    stages, parts = [], []
    for index in range(o.stage, len(spans), o.stages):
        options = types.SimpleNamespace(checkpointing="", length=o.length)
        part = torchtitan_recipe.model(fields, options, torch.float32)
        for name in list(part.layers):
            if not spans[index][0] <= int(name) < spans[index][1]:
                del part.layers[name]
        if index > 0:
            part.tok_embeddings = None
        if index < len(spans) - 1:
            part.norm = part.output = None
        if o.tensor > 1:
            across(part, mesh["tensor"], not o.whole_logits)
        options.checkpointing = o.checkpointing
        torchtitan_recipe.checkpoints(part, options)
        sharded(part, o, mesh)
        ends = (hidden if index > 0 else tokens, hidden if index < len(spans) - 1 else logits)
        stages.append(PipelineStage(part, index, len(spans), torch.device("cpu"), *ends, group=mesh.get_group("stage")))
        parts.append(part)
    how = {"n_microbatches": o.micro, "loss_fn": torchtitan_recipe.Loop(None, None, o).of}
    return get_schedule_class(o.schedule)(stages if local > 1 else stages[0], **how), parts


def pipeline_step(schedule, parts, call, o):
    context = loss_parallel() if o.tensor > 1 and not o.whole_logits else contextlib.nullcontext()
    with context, record_function(events.MARK + "forward"):
        given = [call["input_ids"]] if o.stage == 0 else []
        losses = {"target": call["labels"], "losses": []} if o.stage == o.stages - 1 else {}
        schedule.step(*given, **losses)
    with record_function(events.MARK + "zero_grad"):
        for part in parts:
            part.zero_grad(set_to_none=True)


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
    p.add_argument("--mixed", action="store_true", help="gathered in bfloat16, reduced in 32 bits")
    p.add_argument("--stages", type=int, default=1)
    p.add_argument("--stage", type=int, default=0)
    p.add_argument("--schedule", choices=["1F1B", "GPipe", "Interleaved1F1B"], default="1F1B")
    p.add_argument("--micro", type=int, default=1)
    p.add_argument("--layers", type=int, help="in place of the configuration's")
    p.add_argument("--row", action="store_true")
    p.add_argument("--trace", action="store_true")
    return p.parse_args()


def main():
    o = arguments()
    ranks = o.tensor * o.data * o.stages
    rank = o.stage * o.tensor * o.data
    os.environ |= {"RANK": str(rank), "LOCAL_RANK": "0", "WORLD_SIZE": str(ranks)}
    dist.init_process_group("fake", store=FakeStore(), rank=rank, world_size=ranks)
    torch.manual_seed(0)
    mesh = dist.device_mesh.init_device_mesh("cpu", (o.stages, o.data, o.tensor), mesh_dim_names=("stage", "data", "tensor"))
    call = torchtitan_recipe.inputs(fields_of(o), o)
    if o.stages > 1:
        schedule, parts = stage_of(o, mesh)
        run = lambda: pipeline_step(schedule, parts, call, o)
    else:
        made = model_of(o, mesh)
        loop = torchtitan_recipe.Loop(made, call, o)
        run = lambda: step(made, loop, o)
    run()
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True, with_stack=True) as p:
        run()
    found = events.normalise(events.read(p))[0]
    phases = shard.levels(found)
    if o.trace:
        trace(found)
    elif o.row:
        how = [fields_of(o)["vocab_size"], o.tensor, o.data, o.batch, o.checkpointing or "none", "gathered" if o.whole_logits else "plain"]
        if o.stages > 1:
            how += [fields_of(o)["num_hidden_layers"], o.stages, o.stage, o.schedule, o.micro, "mixed" if o.mixed else "fp32"]
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
