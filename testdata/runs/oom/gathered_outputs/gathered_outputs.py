import torch
import torch.nn as nn
import torch.nn.functional as F


class Tower(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(*[m for _ in range(4) for m in (nn.Linear(1024, 1024), nn.GELU())])

    def forward(self, x):
        return self.net(x)


query, passage = Tower().cuda(), Tower().cuda()
opt = torch.optim.AdamW([*query.parameters(), *passage.parameters()])
for step in range(3):
    qs, ps = [], []
    for micro in range(32):
        x = torch.randn(2, 2048, 1024, device="cuda")
        qs.append(query(x[0]))
        ps.append(passage(x[1]))
    sim = torch.cat(qs) @ torch.cat(ps).T
    loss = F.cross_entropy(sim, torch.arange(sim.shape[0], device="cuda"))
    loss.backward()
    opt.step()
    opt.zero_grad()
