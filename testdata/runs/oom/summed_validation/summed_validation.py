"""A validation that sums its losses without torch.no_grad(): the sum keeps the graphs of all passes."""

import torch
from torch import nn


class Net(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(width, width) for _ in range(4))
        self.head = nn.Linear(width, 10)

    def forward(self, x):
        for layer in self.layers:
            x = torch.nn.functional.gelu(layer(x))
        return self.head(x)


def validate(net, batches):
    total = 0.0
    for _ in range(batches):
        x = torch.randn(16384, 1024, device="cuda")
        y = torch.randint(0, 10, (16384,), device="cuda")
        total += nn.functional.cross_entropy(net(x), y)
    return total / batches


net = Net(1024).cuda()
optimizer = torch.optim.AdamW(net.parameters())
for _ in range(2):
    x, y = torch.randn(512, 1024, device="cuda"), torch.randint(0, 10, (512,), device="cuda")
    nn.functional.cross_entropy(net(x), y).backward()
    optimizer.step()
    optimizer.zero_grad()
net.eval()
validate(net, 20)
