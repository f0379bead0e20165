"""What inductor makes of a block of torchtitan's Llama between tensor-parallel ranks.

    python oracle/compiled_across.py 16|fp8 async|sync RANKS BATCH LENGTH WIDTH HEADS KEY_HEADS INNER

PyTorch 2.6 runs it, with torchao 0.8 for fp8 and torchtitan's commit 324784142 on the
path; no GPU is needed, and nothing runs: the process group is PyTorch's fake one, and
graphs end as the wrappers that inductor writes for a CPU. The block is computed again
in backward, as in parallelize_llama.py; of fp8 its matrices have come together in 8
bits. Out: a line a pass, as estimate/eager/modules/compiled_across.txt has them, and
one of what each pass rises by, as testdata/compiled/across_block.txt.

Symmetric memory is told to be there, as PyTorch's own tests tell it, so that products
and exchanges are joined; what these then make is from
torch/distributed/_symmetric_memory/__init__.py: gathered operands and results, and of
sums that are scattered all ranks' parts before theirs.
"""

import itertools
import math
import re
import sys

import torch
import torch.distributed as dist
from torch import nn
from torch._guards import TracingContext, tracing
from torch._inductor import compile_fx, config
from torch._inductor.graph import GraphLowering
from torch.distributed import _symmetric_memory
from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import checkpoint_wrapper
from torch.distributed.tensor import DTensor, Replicate, Shard
from torch.distributed.tensor.parallel import ColwiseParallel, PrepareModuleInput, RowwiseParallel, SequenceParallel, parallelize_module
from torch.testing._internal.distributed.fake_pg import FakeStore
from torchtitan.models.llama.model import ModelArgs, TransformerBlock

STATE = 5056  # bytes of a CPU's random state
SMALL = 128  # bytes: scales and maxima are not listed


class Done(Exception):
    """The graphs, or the code, are there."""


def across(block, mesh, fp8):
    styles = ColwiseParallel, RowwiseParallel, PrepareModuleInput
    if fp8:
        from torchao.float8 import float8_tensor_parallel as f

        styles = f.Float8ColwiseParallel, f.Float8RowwiseParallel, f.PrepareFloat8ModuleInput
    columns, rows, inputs = styles
    plan = {
        "attention_norm": SequenceParallel(),
        "attention": inputs(input_layouts=(Shard(1), None), desired_input_layouts=(Replicate(), None)),
        "attention.wo": rows(output_layouts=Shard(1)),
        "ffn_norm": SequenceParallel(),
        "feed_forward": inputs(input_layouts=(Shard(1),), desired_input_layouts=(Replicate(),)),
        "feed_forward.w2": rows(output_layouts=Shard(1)),
    }
    for name in ("attention.wq", "attention.wk", "attention.wv", "feed_forward.w1", "feed_forward.w3"):
        plan[name] = columns()
    parallelize_module(block, mesh, plan)


def gathered(block, mesh):
    """Weights as fully_shard leaves them that gathers in 8 bits."""
    from torchao.float8.float8_linear import Float8Linear
    from torchao.float8.float8_tensor import Float8Tensor, GemmInputRole

    for module in block.modules():
        if isinstance(module, Float8Linear):
            own = module.weight
            data = torch.empty(own._local_tensor.shape, dtype=torch.float8_e4m3fn)
            narrow = Float8Tensor(data, torch.ones((), dtype=torch.float32), torch.bfloat16, module.linear_mm_config, gemm_input_role=GemmInputRole.WEIGHT)
            module.weight = nn.Parameter(DTensor.from_local(narrow, mesh, own.placements, run_check=False))


def graphs(s):
    """The graphs of both passes after AOTAutograd's partition."""
    dist.init_process_group("fake", store=FakeStore(), rank=0, world_size=s.ranks)
    mesh = dist.device_mesh.init_device_mesh("cpu", (s.ranks,))
    torch.set_default_dtype(torch.bfloat16)
    linear = lambda i, o: nn.Linear(i, o, bias=False)
    with torch.device("meta"):
        block = TransformerBlock(0, ModelArgs(dim=s.width, n_layers=1, n_heads=s.heads, n_kv_heads=s.key_heads, multiple_of=1, max_seq_len=s.length))
        f = block.feed_forward
        f.w1, f.w2, f.w3 = linear(s.width, s.inner), linear(s.inner, s.width), linear(s.width, s.inner)
    if s.fp8:
        from torchao.float8 import convert_to_float8_training

        convert_to_float8_training(block)
    across(block, mesh, s.fp8)
    block.to_empty(device="cpu")
    if s.fp8:
        gathered(block, mesh)
    config._micro_pipeline_tp = _symmetric_memory._is_test_mode = s.asynchronous
    found, cut = [], compile_fx.min_cut_rematerialization_partition

    def partition(*args, **options):
        found.extend(cut(*args, **options))
        raise Done

    compile_fx.min_cut_rematerialization_partition = partition
    x = torch.empty(s.batch, s.length // s.ranks, s.width, requires_grad=True)
    table = torch.empty(s.length, s.width // s.heads // 2, dtype=torch.complex64)
    try:
        torch.compile(checkpoint_wrapper(block, preserve_rng_state=False), fullgraph=True)(x, table)
    except Exception:
        if not found:
            raise
    return found


def wrapper(graph, backward):
    """The code that inductor writes around its kernels."""
    code = []

    def stop(self):
        code.append(self.codegen()[0])
        raise Done

    GraphLowering._compile_to_module = stop
    inputs = [n.meta["val"] for n in graph.graph.nodes if n.op == "placeholder"]
    mode = next(v.fake_mode for v in inputs if hasattr(v, "fake_mode"))
    try:
        with tracing(TracingContext(mode)), config.patch(fx_graph_cache=False):
            compile_fx.compile_fx_inner(graph, inputs, is_backward=backward, static_input_idxs=() if backward else range(len(inputs)))
    except Exception:
        if not code:
            raise
    return code[0]


class Sizes:
    """The dimensions of a block on a rank, and names of tensors by their shapes."""

    def __init__(self, fp8, asynchronous, ranks, batch, length, width, heads, key_heads, inner):
        self.fp8, self.asynchronous, self.ranks, self.batch, self.length = fp8, asynchronous, ranks, batch, length
        self.width, self.heads, self.key_heads, self.inner = width, heads, key_heads, inner
        head = width // heads
        self.of = dict(P=batch * length, S=batch * length // ranks, D=width, Q=heads * head // ranks, K=key_heads * head // ranks, I=inner // ranks, H=heads // ranks)

    def name(self, dims, size):
        d, n = self.of, math.prod(dims)
        dims = [x for x in dims if x > 1]
        weight = len(dims) <= 2 and all(x in (d["D"], d["Q"], d["K"], d["I"]) for x in dims) and not (d["P"] in dims and d["P"] != d["D"])
        whole = d["P"] in dims or self.length in dims
        row, other = ("P", "S") if whole else ("S", "P")
        if weight and n == d["D"]:
            return f"D{size}"
        if not weight and n == d[row]:
            return f"{row}{size}"
        if not weight and len(dims) == 3 and whole and n == d["P"] * d["H"]:
            return f"PH{size}"
        pairs = list(itertools.product("D", "IQK")) if weight else [("P", "D"), *itertools.product(row + other, "DQKI")]
        return next(f"{a}{b}{size}" for a, b in pairs if d[a] * d[b] == n)

    def bytes(self, name):
        return math.prod(self.of[c] if c.isalpha() else int(c) for c in name)


def shape(text):
    return [int(n) for n in re.findall(r"\d+", text)]


class Program:
    """Follows a wrapper line by line: which buffer each name is, and when the last name goes."""

    def __init__(self, sizes, code):
        self.sizes, self.tokens, self.owner, self.names, self.symbols, self.numbers, self.parts = sizes, [], {}, {}, {}, {}, {}
        self.given = {n: shape(dims) for n, dims in re.findall(r"assert_size_stride\((primals_\d+|tangents_\d+), \(([\d, ]*)\)", code)}
        for line in code[code.index("def call(") :].splitlines()[1:]:
            line = line.strip()
            if line.startswith("return ("):
                results = [self.owner.get(n) for n in re.findall(r"buf\d+", line)]
                self.tokens.append("=" + ",".join(str(self.numbers[r]) for r in results if r in self.numbers))
                return
            self.line(line)

    def born(self, name, symbol, listed=True):
        self.owner[name], self.names[name] = name, 1
        if symbol:
            self.symbols[name], self.numbers[name] = symbol, len(self.numbers)
            self.tokens += ["+" + symbol] if listed else []

    def alias(self, name, of):
        root = self.owner.get(of)
        self.owner[name] = root
        if root:
            self.names[root] += 1

    def drop(self, name):
        root = self.owner.pop(name, None)
        if root:
            self.names[root] -= 1
            if not self.names[root] and root in self.numbers:
                self.tokens.append(f"-{self.numbers[root]}")

    def line(self, line):
        if made := re.match(r"(\w+) = empty_strided\w*\(\(([\d, ]*)\), \([\d, ]*\), torch\.(\w+)\)", line):
            name, dims, size = made[1], shape(made[2]), getattr(torch, made[3]).itemsize
            self.born(name, self.sizes.name(dims, size) if math.prod(dims) * size > SMALL and math.prod(dims) != STATE else None)
        elif called := re.match(r"(\w+) = torch\.ops\.([\w.]+)\((.*)\)$", line):
            self.call(*called.groups())
        elif (part := re.match(r"(\w+) = (\w+)((?:\[\d+\])+)$", line)) and part[2] in self.parts:
            self.take(part[1], part[2], shape(part[3]))
        elif (other := re.match(r"(\w+) = (?:reinterpret_tensor\()?(\w+)\b", line)) and other[2] in self.owner:
            self.alias(other[1], other[2])
        for name in re.findall(r"\bdel (\w+)", line):
            self.drop(name)
            for i in range(len(self.parts.get(name, ()))):
                self.drop(f"{name}[{i}]")

    def take(self, name, source, at):
        saves = "saves" in self.parts[source]
        if saves and len(at) == 1:
            return  # the random state
        part = f"{source}[{at[1] if saves else sum(at)}]"
        if part in self.owner:
            self.alias(name, part)
            self.drop(part)

    def call(self, name, operator, args):
        first = re.search(r"(buf\d+|primals_\d+|tangents_\d+)", args)[1]
        root, width = self.owner.get(first), 1 if "scaled" in operator or "float8" in args else 2
        if any(view in operator for view in ("_conj", "view_as", "slice", "reshape")):
            self.alias(name, first)
        elif "fused_all_gather" in operator:
            matrices = re.findall(r"reinterpret_tensor\(\w+, \((\d+), (\d+)\)|(primals_\d+)", args[args.index("[") : args.index("]") + 1])
            outs = [int(b) if b else self.given[p][1] for _, b, p in matrices]
            self.many(name, [f"PD{width}", *("P" + next(c for c in "QKID" if self.sizes.of[c] == o) + "2" for o in outs)])
        elif "matmul_reduce_scatter" in operator:
            self.born(name + "all", "PD2")
            self.born(name, "SD2")
            self.drop(name + "all")
        elif "all_gather" in operator or "aten.cat" in operator:
            source = self.symbols[root] if root else "SD2"
            self.born(name, "PD" + source[-1])
        elif "reduce_scatter" in operator:
            self.born(name, "SD2")
        elif "cpu_backward" in operator or "rng_state" in operator:
            backward = "cpu_backward" in operator
            tensors = re.findall(r"(?:reinterpret_tensor\()?(buf\d+|tangents_\d+)(?:, \([^)]*\), \([^)]*\), \d+\))?", args)
            query = [n for n in tensors if n.startswith("buf")][int(backward)]
            self.tokens.append(("B" if backward else "F") + str(self.numbers[self.owner[query]]))
            self.many(name, ["PQ2"] * 3 if backward else ["PQ2", "PH4"], listed=False)
            if "run_and_save" in operator:
                self.parts[name].append("saves")
        elif "aten.mul.Tensor" in operator:
            self.born(name, self.symbols[root])

    def many(self, name, symbols, listed=True):
        self.parts[name] = list(symbols)
        for i, symbol in enumerate(symbols):
            self.born(f"{name}[{i}]", symbol, listed)

    def rises(self):
        sizes, level, peak = [], 0, 0
        for token in self.tokens:
            made = {"+": [token[1:]], "F": ["PQ2", "PH4"], "B": ["PQ2"] * 3}.get(token[0], [])
            sizes += [self.sizes.bytes(symbol) for symbol in made]
            level += sum(sizes[len(sizes) - len(made) :]) - (sizes[int(token[1:])] if token[0] == "-" else 0)
            peak = max(peak, level)
        return peak


if __name__ == "__main__":
    form, how, *rest = sys.argv[1:]
    sizes = Sizes(form == "fp8", how == "async", *map(int, rest))
    programs = [Program(sizes, wrapper(graph, backward)) for backward, graph in enumerate(graphs(sizes))]
    for pass_, program in zip(("forward", "backward"), programs):
        print(form, how, pass_, *program.tokens)
    print("2.6", form, how, *rest[:6], sizes.width // sizes.heads, rest[6], ":", *(p.rises() for p in programs))
