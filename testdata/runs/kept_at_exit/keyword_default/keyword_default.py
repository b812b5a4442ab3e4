import torch
from torch import nn


def log_batch(images, *, seen={}):
    seen[len(seen)] = images
    return len(seen)


class Classifier(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Linear(3 * 32 * 32, 256)
        self.head = nn.Linear(256, 10)

    def forward(self, x):
        return self.head(torch.relu(self.body(x.flatten(1))))


def fit(epochs):
    model = Classifier().cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(epochs):
        for _ in range(6):
            images = torch.rand(128, 3, 32, 32).cuda()
            labels = torch.zeros(128, dtype=torch.long).cuda()
            loss = nn.functional.cross_entropy(model(images), labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            log_batch(images)


fit(3)
