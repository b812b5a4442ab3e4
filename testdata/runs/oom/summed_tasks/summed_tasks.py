import torch
import torch.nn as nn
import torch.nn.functional as F

net = nn.Sequential(nn.Linear(512, 2048), nn.ReLU(), nn.Linear(2048, 2048), nn.ReLU(), nn.Linear(2048, 5)).cuda()
meta = torch.optim.Adam(net.parameters(), 1e-3)


def adapt(params, x, y, steps=5):
    for _ in range(steps):
        loss = F.cross_entropy(torch.func.functional_call(net, params, (x,)), y)
        grads = torch.autograd.grad(loss, list(params.values()), create_graph=True)
        params = {k: p - 0.01 * g for (k, p), g in zip(params.items(), grads)}
    return params


for iteration in range(20):
    total = 0
    for task in range(16):
        x, y = torch.randn(1024, 512, device="cuda"), torch.randint(0, 5, (1024,), device="cuda")
        params = adapt(dict(net.named_parameters()), x, y)
        total = total + F.cross_entropy(torch.func.functional_call(net, params, (x,)), y)
    meta.zero_grad()
    total.backward()
    meta.step()
