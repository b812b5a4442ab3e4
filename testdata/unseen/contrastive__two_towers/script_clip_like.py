"""CLIP-like training: an image tower over patches, a text tower, in-batch logits."""
from dataclasses import dataclass

import torch
import torch.nn as nn
import torch.nn.functional as F


@dataclass
class Config:
    embed: int = 384
    image_width: int = 512
    text_width: int = 384
    layers: int = 5
    patch: int = 16
    image: int = 160
    words: int = 20000
    length: int = 48
    batch: int = 320
    steps: int = 4


class Tower(nn.Module):
    def __init__(self, width, layers, tokens, out):
        super().__init__()
        self.positions = nn.Parameter(torch.randn(tokens, width) * 0.01)
        layer = nn.TransformerEncoderLayer(width, width // 64, width * 4, dropout=0.0, activation="gelu", batch_first=True, norm_first=True)
        self.encoder = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
        self.norm = nn.LayerNorm(width)
        self.project = nn.Linear(width, out, bias=False)

    def forward(self, x):
        x = self.encoder(x + self.positions)
        return F.normalize(self.project(self.norm(x.mean(dim=1))), dim=-1)


class TwoTowers(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.patchify = nn.Conv2d(3, c.image_width, c.patch, stride=c.patch, bias=False)
        self.words = nn.Embedding(c.words, c.text_width)
        self.image = Tower(c.image_width, c.layers, (c.image // c.patch) ** 2, c.embed)
        self.text = Tower(c.text_width, c.layers, c.length, c.embed)
        self.logit_scale = nn.Parameter(torch.tensor(2.659))

    def encode_image(self, pixels):
        return self.image(self.patchify(pixels).flatten(2).transpose(1, 2))

    def encode_text(self, ids):
        return self.text(self.words(ids))


def contrastive_loss(model, pixels, ids):
    a, b = model.encode_image(pixels), model.encode_text(ids)
    similarity = a @ b.t()
    logits = similarity * model.logit_scale.exp()
    labels = torch.arange(len(logits), device=logits.device)
    return (F.cross_entropy(logits, labels) + F.cross_entropy(logits.t(), labels)) / 2


def main():
    c = Config()
    torch.cuda.memory._record_memory_history(max_entries=300000, stacks="all")
    model = TwoTowers(c).cuda()
    opt = torch.optim.AdamW(model.parameters(), lr=5e-4, betas=(0.9, 0.98), weight_decay=0.2, fused=True)
    for step in range(c.steps):
        pixels = torch.randn(c.batch, 3, c.image, c.image).cuda(non_blocking=True)
        ids = torch.randint(0, c.words, (c.batch, c.length)).cuda(non_blocking=True)
        loss = contrastive_loss(model, pixels, ids)
        loss.backward()
        opt.step()
        opt.zero_grad()
        with torch.no_grad():
            model.logit_scale.clamp_(0, 4.6052)
        print(step, loss.item(), torch.cuda.max_memory_allocated() // 10**6, "MB")
    torch.cuda.memory._dump_snapshot("towers.pickle")


main()
