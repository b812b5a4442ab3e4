"""WGAN-GP on 64x64 images: three critic steps with a gradient penalty, then one generator step."""
import torch
import torch.nn as nn


class Generator(nn.Module):
    def __init__(self, z=128, w=64):
        super().__init__()
        self.first = nn.Linear(z, 8 * w * 16)
        self.rest = nn.Sequential(
            nn.Unflatten(1, (8 * w, 4, 4)),
            nn.ConvTranspose2d(8 * w, 4 * w, 4, 2, 1), nn.BatchNorm2d(4 * w), nn.ReLU(),
            nn.ConvTranspose2d(4 * w, 2 * w, 4, 2, 1), nn.BatchNorm2d(2 * w), nn.ReLU(),
            nn.ConvTranspose2d(2 * w, w, 4, 2, 1), nn.BatchNorm2d(w), nn.ReLU(),
            nn.ConvTranspose2d(w, 3, 4, 2, 1), nn.Tanh())

    def forward(self, z):
        return self.rest(self.first(z))


class Critic(nn.Module):
    def __init__(self, w=64):
        super().__init__()
        self.net = nn.Sequential(
            nn.Conv2d(3, w, 4, 2, 1), nn.LeakyReLU(0.2), nn.Conv2d(w, 2 * w, 4, 2, 1), nn.LeakyReLU(0.2),
            nn.Conv2d(2 * w, 4 * w, 4, 2, 1), nn.LeakyReLU(0.2), nn.Conv2d(4 * w, 8 * w, 4, 2, 1), nn.LeakyReLU(0.2),
            nn.Flatten(), nn.Linear(8 * w * 16, 1))

    def forward(self, x):
        return self.net(x)


def gradient_penalty(critic, real, fake):
    mix = torch.rand(len(real), 1, 1, 1, device=real.device)
    blend = (mix * real + (1 - mix) * fake).requires_grad_(True)
    score = critic(blend)
    (grad,) = torch.autograd.grad(score.sum(), blend, create_graph=True)
    return ((grad.flatten(1).norm(2, dim=1) - 1) ** 2).mean()


def critic_step(gen, critic, opt, real):
    with torch.no_grad():
        fake = gen(torch.randn(len(real), 128, device="cuda"))
    loss = critic(fake).mean() - critic(real).mean() + 10 * gradient_penalty(critic, real, fake)
    opt.zero_grad()
    loss.backward()
    opt.step()
    return loss.item()


def generator_step(gen, critic, opt, n):
    loss = -critic(gen(torch.randn(n, 128, device="cuda"))).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
    return loss.item()


def main(batch=256, rounds=3):
    gen, critic = Generator().cuda(), Critic().cuda()
    opt_g = torch.optim.Adam(gen.parameters(), lr=1e-4, betas=(0.0, 0.9))
    opt_c = torch.optim.Adam(critic.parameters(), lr=1e-4, betas=(0.0, 0.9))
    for r in range(rounds):
        for k in range(3):
            real = torch.randn(batch, 3, 64, 64).cuda()
            c = critic_step(gen, critic, opt_c, real)
        g = generator_step(gen, critic, opt_g, batch)
        print(f"round {r}: critic {c:.3f} generator {g:.3f} peak {torch.cuda.max_memory_allocated() / 1e9:.2f} GB")


torch.cuda.memory._record_memory_history(max_entries=300000)
main()
torch.cuda.memory._dump_snapshot("wgan.pickle")
