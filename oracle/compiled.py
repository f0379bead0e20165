"""What torch.compile keeps of a Llama block of torchtitan between forward and backward,
and of its loss.

In: nothing, "float8" or "loss", and the PyTorch that runs it. Out: a line a case on stdout.

testdata/compiled/llama_block.txt collects blocks of several releases: release,
checkpointing, batch, length, width, query heads, key heads, width of a head, width
of the network, and the bytes of each tensor that the compiled forward gives to the
backward beside its input, its weights and the rotary table. The graphs are those
that inductor is handed after AOTAutograd's partition; nothing is compiled further.

testdata/compiled/float8_block.txt has blocks whose linear layers torchao made its
Float8Linear, behind the release of torchao, without numbers of 8 bytes and less; for
them torchao must be there too.

testdata/compiled/loss.txt has the loss: release, batch, length, vocabulary, the bytes
of each tensor that forward gives to the backward beside logits and labels, and after
another colon those of each buffer that the backward's code makes, as inductor writes
it for a CPU.
"""

import math
import re
import sys

from collections import defaultdict

import torch
from torch import nn
from torch._inductor.compile_fx import compile_fx
from torch._inductor.utils import run_and_get_code
from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import checkpoint_wrapper
from torch.nn import functional as F

try:
    from torch.utils.checkpoint import CheckpointPolicy, create_selective_checkpoint_contexts
except ImportError:  # before PyTorch 2.4, for what needs no policy
    CheckpointPolicy = None

aten = torch.ops.aten
LOGITS = [(1, 64, 1000), (2, 128, 4096), (4, 32, 32000)]
SHAPES = [(2, 256, 512, 8, 2, 64, 1792), (1, 64, 256, 4, 4, 64, 688), (2, 128, 256, 8, 8, 32, 704), (1, 512, 512, 16, 4, 32, 1024)]


class Norm(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x):
        wide = x.float()
        return (wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + 1e-5)).type_as(x) * self.weight


def turned(x, table):
    pairs = torch.view_as_complex(x.float().reshape(*x.shape[:-1], -1, 2))
    table = table[0 : x.shape[1]].view(1, x.shape[1], 1, -1)
    return torch.view_as_real(pairs * table).flatten(3).type_as(x)


def repeated(x, times):
    batch, length, heads, head = x.shape
    if times == 1:
        return x
    return x[:, :, :, None, :].expand(batch, length, heads, times, head).reshape(batch, length, heads * times, head)


class Block(nn.Module):
    """TransformerBlock of torchtitan's Llama, at 9dec370 as at e23bb707d."""

    def __init__(self, width, heads, kv, head, inner):
        super().__init__()
        self.head, self.times = head, heads // kv
        linear = lambda i, o: nn.Linear(i, o, bias=False)
        self.wq, self.wk, self.wv, self.wo = linear(width, heads * head), linear(width, kv * head), linear(width, kv * head), linear(heads * head, width)
        self.w1, self.w2, self.w3 = linear(width, inner), linear(inner, width), linear(width, inner)
        self.before, self.between = Norm(width), Norm(width)

    def attention(self, x, table):
        batch, length, _ = x.shape
        q, k, v = (y.view(batch, length, -1, self.head) for y in (self.wq(x), self.wk(x), self.wv(x)))
        q, k = turned(q, table), turned(k, table)
        k, v = repeated(k, self.times), repeated(v, self.times)
        out = F.scaled_dot_product_attention(q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2), is_causal=True)
        return self.wo(out.transpose(1, 2).contiguous().view(batch, length, -1))

    def forward(self, x, table):
        h = x + self.attention(self.before(x), table)
        n = self.between(h)
        return h + self.w2(F.silu(self.w1(n)) * self.w3(n))


def chosen():
    products = defaultdict(int)

    def policy(context, operator, *args, **kwargs):
        product = operator == aten.mm.default
        products[context.is_recompute] += product
        if operator == aten._scaled_dot_product_flash_attention_for_cpu.default or product and products[context.is_recompute] % 2:
            return CheckpointPolicy.MUST_SAVE
        return CheckpointPolicy.PREFER_RECOMPUTE

    return create_selective_checkpoint_contexts(policy)


class Partitioned(Exception):
    """The graphs are there: nothing needs to run."""


VIEWS = (aten.permute.default, aten.view.default, aten.alias.default)


def roots_of(nodes, complex_too=False):
    """The bytes of each tensor that a graph gives on, beside what it was given and,
    unless complex_too, the table of rotations: of two views of one tensor that tensor once, as release 2.3 gives
    on what attention gives out."""
    found = {}
    for node in nodes:
        source = node
        while source.target in VIEWS:  # a weight turned is no tensor of its own
            source = source.args[0]
        value = node.meta["val"]
        if source.op != "placeholder" and (complex_too or not value.is_complex()):
            found[source] = value.numel() * value.element_size()
    return list(found.values())


def kept(how, batch, length, width, heads, kv, head, inner, change=lambda block: block):
    torch._dynamo.reset()
    block = change(Block(width, heads, kv, head, inner))
    if how != "none":
        block = checkpoint_wrapper(block, preserve_rng_state=False, **({"context_fn": chosen} if how == "selective" else {}))
    found = []

    def inner_compile(graph, inputs, **options):
        found.extend(roots_of(next(n for n in graph.graph.nodes if n.op == "output").args[0][1:]))
        raise Partitioned

    compiled = torch.compile(block, backend=lambda graph, inputs: compile_fx(graph, inputs, inner_compile=inner_compile), fullgraph=True)
    table = torch.randn(length, head // 2, dtype=torch.complex64)
    try:
        compiled(torch.randn(batch, length, width, requires_grad=True), table)
    except Exception as e:
        if not isinstance(getattr(e, "inner_exception", e), Partitioned):
            raise
    return sorted(found)


def loss(logits, labels):
    """cross_entropy_loss of torchtitan's components/loss.py."""
    return F.cross_entropy(logits.flatten(0, 1).float(), labels.flatten(0, 1))


def made(code):
    """The bytes of each buffer that a wrapper allocates, and those that it gives back."""
    buffers = {}
    for name, shape, dtype in re.findall(r"(\w+) = empty_strided_cpu\(\(([\d, ]*)\), \([\d, ]*\), torch\.(\w+)\)", code):
        buffers[name] = math.prod(int(n) for n in shape.split(",") if n.strip()) * getattr(torch, dtype).itemsize
    for name, old in re.findall(r"(\w+) = (?:reinterpret_tensor\()?(\w+)[^;\n]*; del", code):
        buffers.setdefault(name, buffers.get(old, 0))
    given = re.search(r"return \((.*)\)", code).group(1)
    return buffers, given


def of_loss(batch, length, vocabulary):
    torch._dynamo.reset()
    head = torch.randn(8, vocabulary, requires_grad=True)
    compiled = torch.compile(loss)
    step = lambda: compiled(torch.randn(batch, length, 8) @ head, torch.randint(0, vocabulary, (batch, length))).backward()
    _, (forward, backward) = run_and_get_code(step)
    buffers, given = made(forward)
    kept = [buffers[name] for name in given.replace(" ", "").split(",")[1:] if name in buffers]
    return sorted(kept), sorted(made(backward)[0].values())


if __name__ == "__main__":
    torch.set_default_dtype(torch.bfloat16)
    release = ".".join(torch.__version__.split(".")[:2])
    if sys.argv[1:] == ["loss"]:
        for shape in LOGITS:
            between, buffers = of_loss(*shape)
            print(release, *shape, ":", *between, ":", *buffers)
        sys.exit()
    if sys.argv[1:] == ["float8"]:
        import torchao
        from torchao.float8 import convert_to_float8_training

        for how in ("full", "selective"):
            for shape in SHAPES[:2]:
                print(torchao.__version__, how, *shape, ":", *(b for b in kept(how, *shape, change=convert_to_float8_training) if b > 8))
        sys.exit()
    for how in ("none", "selective") if CheckpointPolicy else ("none",):
        for shape in SHAPES:
            print(release, how, *shape, ":", *kept(how, *shape))
