"""What torch.compile keeps of torchtitan's Llama block of 2026: query, key and value in
one product, rows of the rotary table by position, flex attention.

In: nothing, and the PyTorch that runs it (2.15). Out: lines as those of compiled.py, on
stdout; complex numbers among them, and not the masks, positions and tables that are
given. The graphs are those that inductor is handed after AOTAutograd's partition: flex
attention has no backward on a CPU, and none runs.
"""

from collections import defaultdict

import torch
import torch.nn.attention.flex_attention as flex
from torch import nn
from torch._inductor.compile_fx import compile_fx
from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import checkpoint_wrapper
from torch.nn import functional as F
from torch.utils.checkpoint import CheckpointPolicy, create_selective_checkpoint_contexts

from compiled import SHAPES, Partitioned, roots_of

flex._validate_device = lambda *tensors: None  # a CPU is refused a backward that does not run here


class Block(nn.Module):
    """Llama3TransformerBlock at bcc09297a."""

    def __init__(self, width, heads, kv, head, inner):
        super().__init__()
        self.head, self.times = head, heads // kv
        linear = lambda i, o: nn.Linear(i, o, bias=False)
        self.wqkv, self.wo = linear(width, (heads + 2 * kv) * head), linear(heads * head, width)
        self.w1, self.w2, self.w3 = linear(width, inner), linear(inner, width), linear(width, inner)
        self.before, self.between = nn.RMSNorm(width, eps=1e-5), nn.RMSNorm(width, eps=1e-5)

    def attention(self, x, table, mask, positions):
        batch, length, _ = x.shape
        joined = self.wqkv(x).view(batch, length, -1, self.times + 2, self.head)
        q, k, v = (y.reshape(batch, length, -1, self.head).contiguous() for y in torch.split(joined, [self.times, 1, 1], dim=-2))
        at = positions.view(batch, length, 1, 1).expand(batch, length, 1, table.shape[-1])
        rows = torch.gather(table[None, :, None, :].expand(batch, -1, -1, -1), dim=1, index=at)
        turn = lambda y: torch.view_as_real(torch.view_as_complex(y.float().reshape(*y.shape[:-1], -1, 2)) * rows).flatten(3).type_as(y)
        q, k, v = (y.transpose(1, 2) for y in (turn(q), turn(k), v))
        out, _ = flex.flex_attention(q, k, v, block_mask=mask, enable_gqa=self.times > 1, return_aux=flex.AuxRequest(lse=False))
        return self.wo(out.transpose(1, 2).contiguous().view(batch, length, -1))

    def forward(self, x, table, mask, positions):
        h = x + self.attention(self.before(x), table, mask, positions)
        n = self.between(h)
        return h + self.w2(F.silu(self.w1(n)) * self.w3(n))


def chosen():
    products = defaultdict(int)

    def policy(context, operator, *args, **kwargs):
        product = operator == torch.ops.aten.mm.default
        products[context.is_recompute] += product
        if operator == torch._higher_order_ops.flex_attention or product and products[context.is_recompute] % 2:
            return CheckpointPolicy.MUST_SAVE
        return CheckpointPolicy.PREFER_RECOMPUTE

    return create_selective_checkpoint_contexts(policy)


def kept(how, batch, length, width, heads, kv, head, inner):
    torch._dynamo.reset()
    block = Block(width, heads, kv, head, inner)
    if how != "none":
        block = checkpoint_wrapper(block, early_stop=False, **({"context_fn": chosen} if how == "selective" else {}))
    found = []

    def inner_compile(graph, inputs, **options):
        found.extend(roots_of(next(n for n in graph.graph.nodes if n.op == "output").args[0][1:], complex_too=True))
        raise Partitioned

    compiled = torch.compile(block, backend=lambda graph, inputs: compile_fx(graph, inputs, inner_compile=inner_compile), fullgraph=True)
    ends = torch.full((batch, length), length, dtype=torch.int32)
    mask = flex.create_block_mask(lambda b, h, q, k: (q >= k) & (q <= ends[b, k]), batch, None, length, length, device="cpu")
    positions = torch.arange(length).expand(batch, length).contiguous()
    try:
        compiled(torch.randn(batch, length, width, requires_grad=True), torch.randn(length, head // 2, dtype=torch.complex64), mask, positions)
    except Exception as e:
        if not isinstance(getattr(e, "inner_exception", e), Partitioned):
            raise
    return sorted(found)


if __name__ == "__main__":
    torch.set_default_dtype(torch.bfloat16)
    release = ".".join(torch.__version__.split(".")[:2])
    for how in ("none", "selective", "full"):
        for shape in SHAPES:
            print(release, how, *shape, ":", *kept(how, *shape))
