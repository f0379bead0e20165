"""Two ranks that average their gradients; one of them is killed in its second step."""

import os
import signal

import torch
import torch.distributed as distributed
from torch import nn

distributed.init_process_group("gloo")
rank = distributed.get_rank()
model = nn.Linear(4, 4)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(3):
    model(torch.ones(2, 4)).sum().backward()
    for p in model.parameters():
        distributed.all_reduce(p.grad)
    if rank == 1 and step == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    optimizer.step()
    optimizer.zero_grad()
