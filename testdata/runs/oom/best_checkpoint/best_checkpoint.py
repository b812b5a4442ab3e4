import copy

import torch
import torch.nn as nn


class EarlyStopping:
    def __init__(self):
        self.best, self.snapshot = float("inf"), None

    def __call__(self, loss, model, opt):
        if loss < self.best:
            self.best = loss
            self.snapshot = copy.deepcopy({"model": model.state_dict(), "optimizer": opt.state_dict()})


def fit():
    model = nn.Sequential(*[m for _ in range(8) for m in (nn.Linear(2048, 2048), nn.ReLU())]).cuda()
    opt = torch.optim.Adam(model.parameters())
    stop = EarlyStopping()
    for epoch in range(4):
        for _ in range(3):
            loss = model(torch.randn(64, 2048, device="cuda")).pow(2).mean()
            opt.zero_grad()
            loss.backward()
            opt.step()
        stop(1 / (epoch + 1), model, opt)


fit()
