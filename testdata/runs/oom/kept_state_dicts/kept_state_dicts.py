"""A history of copies of the model, one for each epoch."""

import copy

import torch
from torch import nn


def fit(model, epochs):
    optimizer = torch.optim.AdamW(model.parameters())
    history = []
    for _ in range(epochs):
        for _ in range(2):
            loss = model(torch.randn(64, 2048, device="cuda")).square().mean()
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
        history.append((loss.item(), copy.deepcopy(model.state_dict())))
    return history


fit(nn.Sequential(*[nn.Linear(2048, 2048) for _ in range(8)]).cuda(), 40)
