import torch, torch.nn as nn
class NeRF(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(63, 256), nn.ReLU(), *[x for _ in range(7) for x in (nn.Linear(256, 256), nn.ReLU())], nn.Linear(256, 4))
    def forward(self, p):
        e = torch.cat([p] + [f(p * 2.0 ** k) for k in range(10) for f in (torch.sin, torch.cos)], -1)
        return self.net(e)
def render(net, rays, n=64):
    t = torch.linspace(2, 6, n, device=rays.device)
    pts = rays[:, None, :3] + t[None, :, None] * rays[:, None, 3:]
    out = net(pts)
    alpha = 1 - torch.exp(-torch.relu(out[..., 3]) * 0.06)
    w = alpha * torch.cumprod(1 - alpha + 1e-10, -1)
    return (w[..., None] * torch.sigmoid(out[..., :3])).sum(1)
net = NeRF().cuda(); opt = torch.optim.Adam(net.parameters(), 5e-4)
for step in range(8):
    rays = torch.randn(1024, 6, device="cuda"); gt = torch.rand(1024, 3, device="cuda")
    loss = (render(net, rays) - gt).square().mean(); loss.backward(); opt.step(); opt.zero_grad()
    if step == 4:
        test = torch.randn(128 * 128, 6, device="cuda")
        img = render(net, test)
        print(img.shape)
