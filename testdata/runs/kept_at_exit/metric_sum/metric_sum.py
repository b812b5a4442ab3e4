"""Validation without no_grad: the metric sums losses that have a graph."""
import torch, torch.nn as nn, torch.nn.functional as F; torch.backends.cudnn.enabled = False

class Mean(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("total", torch.zeros((), device="cuda"))
        self.register_buffer("count", torch.zeros((), device="cuda"))

    def update(self, value, n):
        self.total = self.total + value * n
        self.count = self.count + n

    def compute(self):
        return self.total / self.count

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.features = nn.Sequential(nn.Conv2d(3, 32, 3, padding=1), nn.ReLU(), nn.Conv2d(32, 64, 3, stride=2, padding=1), nn.ReLU(),
                                      nn.Conv2d(64, 64, 3, padding=1), nn.ReLU(), nn.AdaptiveAvgPool2d(4))
        self.head = nn.Linear(1024, 10)

    def forward(self, x):
        return self.head(self.features(x).flatten(1))

def validate(model, batches):
    metric = Mean()
    for _ in range(batches):
        x, y = torch.randn(8, 3, 64, 64, device="cuda"), torch.randint(0, 10, (8,), device="cuda")
        loss = F.cross_entropy(model(x), y)
        metric.update(loss, len(x))
    return metric.compute().item()

def main():
    model = Net().cuda().eval()
    print("val", validate(model, 14))

main()
