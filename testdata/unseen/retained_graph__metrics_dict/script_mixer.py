import torch
import torch.nn as nn
import torch.nn.functional as F
from collections import defaultdict


class Mixer(nn.Module):
    def __init__(self, tokens=64, dim=512, classes=1000, depth=6):
        super().__init__()
        self.stem = nn.Linear(768, dim)
        self.token = nn.ModuleList([nn.Sequential(nn.Linear(tokens, 256), nn.GELU(), nn.Linear(256, tokens)) for _ in range(depth)])
        self.channel = nn.ModuleList([nn.Sequential(nn.Linear(dim, 4 * dim), nn.GELU(), nn.Dropout(0.1), nn.Linear(4 * dim, dim)) for _ in range(depth)])
        self.n1 = nn.ModuleList([nn.LayerNorm(dim) for _ in range(depth)])
        self.n2 = nn.ModuleList([nn.LayerNorm(dim) for _ in range(depth)])
        self.fc = nn.Linear(dim, classes)

    def forward(self, x):
        x = self.stem(x)
        for t, c, a, b in zip(self.token, self.channel, self.n1, self.n2):
            x = x + t(a(x).transpose(1, 2)).transpose(1, 2)
            x = x + c(b(x))
        return self.fc(x.mean(1))


def batch(n):
    return torch.randn(n, 64, 768, device="cuda"), torch.randint(0, 1000, (n,), device="cuda")


def train(steps=6):
    net = Mixer().cuda()
    opt = torch.optim.AdamW(net.parameters(), lr=1e-3)
    metrics = defaultdict(list)
    for step in range(steps):
        x, y = batch(128)
        scores = net(x)
        loss = F.cross_entropy(scores, y)
        loss.backward()
        opt.step()
        opt.zero_grad()
        metrics["train"].append(loss.item())
        xv, yv = batch(64)
        val_scores = net(xv)
        val_loss = F.cross_entropy(val_scores, yv)
        metrics["valid"].append(val_loss)
        print(f"step {step} train {metrics['train'][-1]:.3f} allocated {torch.cuda.memory_allocated() / 1e6:.0f} MB")
    torch.cuda.memory._dump_snapshot("mixer.pickle")
    print("best", min(float(v) for v in metrics["valid"]))


torch.cuda.memory._record_memory_history(max_entries=100000)
train()
