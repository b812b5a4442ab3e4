import torch
import torch.nn as nn
import torch.nn.functional as F


class ConvVAE(nn.Module):
    def __init__(self, latent=256, width=64):
        super().__init__()
        w = width
        self.encoder = nn.Sequential(
            nn.Conv2d(3, w, 4, 2, 1), nn.LeakyReLU(0.2),
            nn.Conv2d(w, 2 * w, 4, 2, 1), nn.GroupNorm(8, 2 * w), nn.LeakyReLU(0.2),
            nn.Conv2d(2 * w, 4 * w, 4, 2, 1), nn.GroupNorm(8, 4 * w), nn.LeakyReLU(0.2),
            nn.Conv2d(4 * w, 8 * w, 4, 2, 1), nn.GroupNorm(8, 8 * w), nn.LeakyReLU(0.2),
            nn.Flatten())
        self.mu = nn.Linear(8 * w * 64, latent)
        self.logvar = nn.Linear(8 * w * 64, latent)
        self.expand = nn.Linear(latent, 8 * w * 64)
        self.decoder = nn.Sequential(
            nn.Unflatten(1, (8 * w, 8, 8)),
            nn.ConvTranspose2d(8 * w, 4 * w, 4, 2, 1), nn.GroupNorm(8, 4 * w), nn.SiLU(),
            nn.ConvTranspose2d(4 * w, 2 * w, 4, 2, 1), nn.GroupNorm(8, 2 * w), nn.SiLU(),
            nn.ConvTranspose2d(2 * w, w, 4, 2, 1), nn.GroupNorm(8, w), nn.SiLU(),
            nn.ConvTranspose2d(w, 3, 4, 2, 1), nn.Tanh())

    def reparametrize(self, mu, logvar):
        std = torch.exp(0.5 * logvar)
        return mu + torch.randn_like(std) * std

    def forward(self, x):
        h = self.encoder(x)
        mu, logvar = self.mu(h), self.logvar(h)
        z = self.reparametrize(mu, logvar)
        return self.decoder(self.expand(z)), mu, logvar


def elbo(recon, x, mu, logvar, beta=1.0):
    mse = F.mse_loss(recon, x, reduction="sum") / x.size(0)
    kl = -0.5 * torch.sum(1 + logvar - mu.pow(2) - logvar.exp()) / x.size(0)
    return mse + beta * kl


class Trainer:
    def __init__(self, batch=96):
        self.vae = ConvVAE().cuda()
        self.opt = torch.optim.RMSprop(self.vae.parameters(), lr=1e-4, momentum=0.9, centered=True)
        self.batch = batch

    def fit(self, steps):
        for step in range(steps):
            x = torch.rand(self.batch, 3, 128, 128).mul_(2).sub_(1).cuda()
            recon, mu, logvar = self.vae(x)
            loss = elbo(recon, x, mu, logvar)
            self.opt.zero_grad()
            loss.backward()
            self.opt.step()
            print("step %d elbo %.2f mem %d" % (step, loss.item(), torch.cuda.memory_allocated()))


torch.cuda.memory._record_memory_history(max_entries=65536)
trainer = Trainer()
trainer.fit(5)
torch.cuda.memory._dump_snapshot("vae.pickle")
