"""Record checkpointing on a CPU: three blocks, plain, reentrant and not.

The layout is that of operators.py. The Go side is
internal/torch/checkpoint_test.go.
"""

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


def step(blocks, start, gradient, reentrant):
    h = start * 2.0
    for block in blocks:
        h = block(h) if reentrant is None else checkpoint(block, h, use_reentrant=reentrant, preserve_rng_state=False)
    h.backward(gradient)
    for p in [start, *blocks.parameters()]:
        p.grad = None


if __name__ == "__main__":
    torch.set_num_threads(1)
    print("# PyTorch", torch.__version__.split("+")[0], "on a CPU, one thread")
    for name, reentrant in (("plain", None), ("reentrant", True), ("not reentrant", False)):
        blocks = torch.nn.ModuleList(Block() for _ in range(3))
        start, gradient = torch.nn.Parameter(torch.randn(4, 64, 128)), torch.randn(4, 64, 128)
        step(blocks, start, gradient, reentrant)
        show(name, lambda: step(blocks, start, gradient, reentrant))
