"""An optimizer whose state has matrices larger than the weights."""

import torch
from torch import nn


class Preconditioned(torch.optim.Optimizer):
    def __init__(self, parameters, lr=1e-3):
        super().__init__(parameters, {"lr": lr})

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            for p in group["params"]:
                state = self.state[p]
                if not state:
                    state["left"] = torch.eye(p.shape[0], device=p.device)
                state["left"].add_(p.grad @ p.grad.T)
                p.sub_(state["left"] @ p.grad, alpha=group["lr"])


net = nn.Sequential(nn.Embedding(15000, 128), nn.Linear(128, 256, bias=False), nn.Linear(256, 128, bias=False)).cuda()
optimizer = Preconditioned(net.parameters())
for _ in range(2):
    net(torch.randint(0, 15000, (64, 16), device="cuda")).square().mean().backward()
    optimizer.step()
    optimizer.zero_grad()
