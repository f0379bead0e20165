"""A compiled model, and a step that is compiled as a whole and then hides its forward."""

import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 1))
compiled = torch.compile(model, backend="eager", fullgraph=True)
measure = nn.MSELoss()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
x = torch.randn(4, 8)
for _ in range(2):
    loss = compiled(x).square().mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()


@torch.compile(backend="eager", fullgraph=True)
def objective(x):
    return measure(model(x), x[:, :1])


objective(x).backward()
optimizer.step()
