"""All layers in one checkpoint: its backward pass makes all of them again at once."""

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.up, self.down = nn.Linear(512, 2048), nn.Linear(2048, 512)

    def forward(self, x):
        return x + self.down(nn.functional.gelu(self.up(x)))


layers = nn.ModuleList(Layer() for _ in range(24)).cuda()
optimizer = torch.optim.SGD(layers.parameters(), 0.1)


def whole(x):
    for layer in layers:
        x = layer(x)
    return x


for _ in range(2):
    x = torch.randn(4096, 512, device="cuda", requires_grad=True)
    checkpoint(whole, x, use_reentrant=False).mean().backward()
    optimizer.step()
    optimizer.zero_grad()
