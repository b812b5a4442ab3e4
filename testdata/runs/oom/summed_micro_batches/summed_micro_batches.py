"""Micro-batches whose graphs are retained, and whose losses are summed for a log line."""

import torch
from torch import nn

model = nn.Sequential(*[nn.Sequential(nn.Linear(1024, 1024), nn.GELU()) for _ in range(6)]).cuda()
optimizer = torch.optim.AdamW(model.parameters())
total = 0
for batch in range(40):
    loss = model(torch.randn(8192, 1024, device="cuda")).square().mean() / 4
    loss.backward(retain_graph=True)
    total = total + loss
    if batch % 4 == 3:
        optimizer.step()
        optimizer.zero_grad()
