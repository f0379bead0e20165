"""Record two steps of torch.optim's optimizers on a CPU, and the clipping of a norm.

The layout is that of operators.py. The Go side is
internal/torch/optimizer_test.go.
"""

import torch

from operators import show

OPTIMIZERS = {
    "adamw foreach": lambda p: torch.optim.AdamW(p, foreach=True),
    "adamw for-loop": lambda p: torch.optim.AdamW(p, foreach=False),
    "adamw fused": lambda p: torch.optim.AdamW(p, fused=True),
    "sgd": lambda p: torch.optim.SGD(p, lr=0.1, foreach=True),
    "sgd momentum foreach": lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, foreach=True),
    "sgd momentum decay foreach": lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, weight_decay=0.1, foreach=True),
    "sgd nesterov foreach": lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, nesterov=True, foreach=True),
    "sgd nesterov decay for-loop": lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, nesterov=True, weight_decay=0.1, foreach=False),
    "rmsprop foreach": lambda p: torch.optim.RMSprop(p, lr=0.1, foreach=True),
    "rmsprop for-loop": lambda p: torch.optim.RMSprop(p, lr=0.1, foreach=False),
    "adamax foreach": lambda p: torch.optim.Adamax(p, foreach=True),
    "adamax for-loop": lambda p: torch.optim.Adamax(p, foreach=False),
    "nadam foreach": lambda p: torch.optim.NAdam(p, foreach=True),
    "nadam for-loop": lambda p: torch.optim.NAdam(p, foreach=False),
}


def main():
    torch.set_num_threads(1)
    print("# PyTorch", torch.__version__.split("+")[0], "on a CPU, one thread")
    for name, make in OPTIMIZERS.items():

        def run():
            parameters = [torch.nn.Parameter(torch.empty(n, 64)) for n in (10, 20, 30)]
            for p in parameters:
                p.grad = torch.empty_like(p)
            optimizer = make(parameters)
            optimizer.step()
            optimizer.step()
            torch.nn.utils.clip_grad_norm_(parameters, 1.0)

        show(name, run)


if __name__ == "__main__":
    main()
