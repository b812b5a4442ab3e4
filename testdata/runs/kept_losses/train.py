import torch
from torch import nn


class Trainer:
    def __init__(self):
        self.model = nn.Sequential(*[nn.Linear(512, 512) for _ in range(4)]).cuda()
        self.optimizer = torch.optim.AdamW(self.model.parameters())
        self.losses = []

    def update(self, batch):
        loss = self.model(batch).relu().pow(2).mean()
        self.losses.append(loss)
        loss.backward(retain_graph=True)
        self.optimizer.step()
        self.optimizer.zero_grad()

    def fit(self, steps):
        for _ in range(steps):
            self.update(torch.randn(4096, 512, device="cuda"))


Trainer().fit(1000)
