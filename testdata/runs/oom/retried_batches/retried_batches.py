"""A program that halves its batch after each failure, and keeps the errors."""

import torch
from torch import nn

net = nn.Sequential(*[nn.Sequential(nn.Linear(1024, 1024), nn.GELU()) for _ in range(12)]).cuda()
optimizer = torch.optim.AdamW(net.parameters())
errors, batch = [], 32768
while batch:
    try:
        net(torch.randn(batch, 1024, device="cuda")).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
        break
    except torch.cuda.OutOfMemoryError as error:
        errors.append(error)
        batch //= 2
        torch.cuda.empty_cache()
else:
    raise errors[-1]
