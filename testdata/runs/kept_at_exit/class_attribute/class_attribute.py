import torch
from torch import nn


class Tracker:
    history = []

    def update(self, output):
        self.history.append(output)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(64, 512), nn.ReLU(), nn.Linear(512, 4096))
        self.tracker = Tracker()

    def forward(self, x):
        out = self.body(x)
        self.tracker.update(out.detach())
        return out


def train():
    net = Net().cuda()
    opt = torch.optim.SGD(net.parameters(), lr=0.01, momentum=0.9)
    for _ in range(15):
        out = net(torch.randn(256, 64, device="cuda"))
        loss = out.pow(2).mean()
        opt.zero_grad(set_to_none=True)
        loss.backward()
        opt.step()


if __name__ == "__main__":
    train()
