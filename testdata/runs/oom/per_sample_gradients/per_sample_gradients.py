import torch, torch.nn as nn
from torch.func import functional_call, vmap, grad
net = nn.Sequential(nn.Linear(256, 1024), nn.ReLU(), nn.Linear(1024, 1024), nn.ReLU(), nn.Linear(1024, 100)).cuda()
opt = torch.optim.SGD(net.parameters(), 0.1)
def loss(params, x, y): return nn.functional.cross_entropy(functional_call(net, params, (x[None],)), y[None])
per_sample = vmap(grad(loss), in_dims=(None, 0, 0))
for step in range(20):
    b = 200
    x = torch.randn(b, 256, device="cuda"); y = torch.randint(0, 100, (b,), device="cuda")
    g = per_sample({k: v.detach() for k, v in net.named_parameters()}, x, y)
    norms = torch.stack([v.flatten(1).norm(dim=1) for v in g.values()]).norm(dim=0)
    for k, p in net.named_parameters():
        p.grad = (g[k] * (1 / norms.clamp(min=1)).view(-1, *[1] * (g[k].dim() - 1))).mean(0)
    opt.step()
