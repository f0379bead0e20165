"""Record checkpointing on a CPU: three blocks, plain, reentrant and not.

The layout is that of operators.py. The Go side is
internal/torch/checkpoint_test.go.
"""

import collections

import torch
import torch.nn.functional as F
from torch.utils.checkpoint import checkpoint

from operators import show


class Norm(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(128))

    def forward(self, x):
        r = torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-5)
        x = x * r
        return self.weight * x


class Block(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = Norm()
        self.up = torch.nn.Linear(128, 256, bias=False)
        self.down = torch.nn.Linear(256, 128, bias=False)

    def forward(self, x):
        h = self.norm(x)
        h = self.down(F.silu(self.up(h)))
        return x + h


def every_second():
    """The results of every second product are kept, the first among them."""
    from torch.utils.checkpoint import CheckpointPolicy, create_selective_checkpoint_contexts

    calls = collections.Counter()

    def policy(context, operator, *args, **kwargs):
        if operator != torch.ops.aten.mm.default:
            return CheckpointPolicy.PREFER_RECOMPUTE
        calls[context.is_recompute] += 1
        return CheckpointPolicy.MUST_SAVE if calls[context.is_recompute] % 2 else CheckpointPolicy.PREFER_RECOMPUTE

    return create_selective_checkpoint_contexts(policy)


def step(blocks, start, gradient, reentrant):
    h = start * 2.0
    chosen = {"context_fn": every_second} if reentrant == "chosen" else {}
    for block in blocks:
        h = block(h) if reentrant is None else checkpoint(block, h, use_reentrant=reentrant is True, preserve_rng_state=False, **chosen)
    h.backward(gradient)
    for p in [start, *blocks.parameters()]:
        p.grad = None


if __name__ == "__main__":
    torch.set_num_threads(1)
    print("# PyTorch", torch.__version__.split("+")[0], "on a CPU, one thread")
    modes = [("plain", None), ("reentrant", True), ("not reentrant", False)]
    if hasattr(torch.utils.checkpoint, "create_selective_checkpoint_contexts"):
        modes.append(("chosen", "chosen"))
    for name, reentrant in modes:
        blocks = torch.nn.ModuleList(Block() for _ in range(3))
        start, gradient = torch.nn.Parameter(torch.randn(4, 64, 128)), torch.randn(4, 64, 128)
        step(blocks, start, gradient, reentrant)
        show(name, lambda: step(blocks, start, gradient, reentrant))
