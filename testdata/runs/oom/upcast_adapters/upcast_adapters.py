"""Adapters on a frozen base in 16 bits, all of which a loop casts to 32 bits for the sake of its norms."""

import torch
from torch import nn


class Adapted(nn.Module):
    def __init__(self, base):
        super().__init__()
        self.base = base
        self.down, self.up = nn.Linear(1536, 8, bias=False).cuda(), nn.Linear(8, 1536, bias=False).cuda()

    def forward(self, x):
        return self.base(x) + self.up(self.down(x))


base = nn.Sequential(*[nn.Sequential(nn.LayerNorm(1536), nn.Linear(1536, 1536), nn.GELU()) for _ in range(40)]).cuda().bfloat16()
for p in base.parameters():
    p.requires_grad_(False)
    p.data = p.data.float()
torch.cuda.empty_cache()
for layer in base:
    layer[1] = Adapted(layer[1])
optimizer = torch.optim.AdamW([p for p in base.parameters() if p.requires_grad], 1e-4)
for _ in range(3):
    base(torch.randn(2048, 1536, device="cuda")).square().mean().backward()
    optimizer.step()
    optimizer.zero_grad()
