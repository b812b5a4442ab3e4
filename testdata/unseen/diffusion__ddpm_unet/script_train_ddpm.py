"""Noise prediction on 64x64 images with a small time-conditioned U-Net, RAdam."""
import math

import torch
import torch.nn as nn
import torch.nn.functional as F


def time_features(t, dim):
    freq = torch.exp(torch.arange(dim // 2, device=t.device) * (-math.log(10000) / (dim // 2)))
    angle = t[:, None].float() * freq[None]
    return torch.cat([angle.sin(), angle.cos()], dim=1)


class ResBlock(nn.Module):
    def __init__(self, cin, cout, tdim):
        super().__init__()
        self.n1, self.c1 = nn.GroupNorm(16, cin), nn.Conv2d(cin, cout, 3, padding=1)
        self.time = nn.Linear(tdim, cout)
        self.n2, self.c2 = nn.GroupNorm(16, cout), nn.Conv2d(cout, cout, 3, padding=1)
        self.skip = nn.Conv2d(cin, cout, 1) if cin != cout else nn.Identity()

    def forward(self, x, t):
        h = self.c1(F.silu(self.n1(x)))
        h = h + self.time(F.silu(t))[:, :, None, None]
        return self.skip(x) + self.c2(F.silu(self.n2(h)))


class SelfAttention2d(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.norm, self.qkv, self.out = nn.GroupNorm(16, c), nn.Linear(c, 3 * c), nn.Linear(c, c)

    def forward(self, x):
        b, c, h, w = x.shape
        y = self.norm(x).flatten(2).transpose(1, 2)
        q, k, v = (z.view(b, h * w, 4, c // 4).transpose(1, 2) for z in self.qkv(y).chunk(3, dim=-1))
        y = F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(b, h * w, c)
        return x + self.out(y).transpose(1, 2).reshape(b, c, h, w)


class EpsModel(nn.Module):
    def __init__(self, w=96):
        super().__init__()
        t = 4 * w
        self.w = w
        self.time = nn.Sequential(nn.Linear(w, t), nn.SiLU(), nn.Linear(t, t))
        self.enter = nn.Conv2d(3, w, 3, padding=1)
        self.d1, self.d2, self.d3 = ResBlock(w, w, t), ResBlock(w, 2 * w, t), ResBlock(2 * w, 4 * w, t)
        self.mid1, self.attn, self.mid2 = ResBlock(4 * w, 4 * w, t), SelfAttention2d(4 * w), ResBlock(4 * w, 4 * w, t)
        self.u3, self.u2, self.u1 = ResBlock(8 * w, 2 * w, t), ResBlock(4 * w, w, t), ResBlock(2 * w, w, t)
        self.leave = nn.Conv2d(w, 3, 3, padding=1)

    def forward(self, x, t):
        t = self.time(time_features(t, self.w))
        a = self.d1(self.enter(x), t)
        b = self.d2(F.avg_pool2d(a, 2), t)
        c = self.d3(F.avg_pool2d(b, 2), t)
        m = self.mid2(self.attn(self.mid1(c, t)), t)
        h = self.u3(torch.cat([m, c], 1), t)
        h = self.u2(torch.cat([F.interpolate(h, scale_factor=2), b], 1), t)
        h = self.u1(torch.cat([F.interpolate(h, scale_factor=2), a], 1), t)
        return self.leave(F.silu(h))


class Diffusion:
    def __init__(self, steps=1000):
        beta = torch.linspace(1e-4, 0.02, steps)
        self.alpha_bar = torch.cumprod(1 - beta, 0).cuda()
        self.steps = steps

    def loss(self, model, x):
        t = torch.randint(0, self.steps, (x.size(0),), device=x.device)
        noise = torch.randn_like(x)
        a = self.alpha_bar[t][:, None, None, None]
        noisy = a.sqrt() * x + (1 - a).sqrt() * noise
        return F.mse_loss(model(noisy, t), noise)


torch.cuda.memory._record_memory_history(max_entries=100_000)
model = EpsModel().cuda()
diffusion = Diffusion()
optimizer = torch.optim.RAdam(model.parameters(), lr=2e-4)
for step in range(4):
    x = torch.randn(48, 3, 64, 64).cuda()
    loss = diffusion.loss(model, x)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print("step", step, "loss", loss.item(), torch.cuda.memory_reserved() // 2**20, "MiB reserved")
torch.cuda.memory._dump_snapshot("ddpm.pickle")
