"""A run that reads its checkpoint onto the GPU, beside the model and the optimizer that it is for."""

import torch
from torch import nn

PATH = "checkpoint.pt"


def step(model, optimizer):
    model(torch.randn(64, 2048, device="cuda")).square().mean().backward()
    optimizer.step()
    optimizer.zero_grad()


model = nn.Sequential(*[nn.Linear(2048, 2048) for _ in range(17)]).cuda()
optimizer = torch.optim.AdamW(model.parameters())
step(model, optimizer)
torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, PATH)
state = torch.load(PATH, map_location="cuda")
model.load_state_dict(state["model"])
optimizer.load_state_dict(state["optimizer"])
step(model, optimizer)
