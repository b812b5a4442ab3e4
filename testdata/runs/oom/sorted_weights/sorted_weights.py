"""Pruning by the magnitude of all weights at once: one vector of them, sorted."""

import torch
from torch import nn

model = nn.Sequential(*[nn.Sequential(nn.Linear(1024, 4096), nn.GELU(), nn.Linear(4096, 1024)) for _ in range(5)]).cuda()
optimizer = torch.optim.AdamW(model.parameters(), 1e-4)


def train(steps):
    for _ in range(steps):
        loss = model(torch.randn(64, 1024, device="cuda")).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()


def prune(share):
    flat = torch.cat([p.detach().abs().flatten() for p in model.parameters()])
    values, order = torch.sort(flat)
    limit = values[int(share * len(values))]
    for p in model.parameters():
        p.data.mul_(p.abs() > limit)


train(3)
prune(0.5)
train(3)
