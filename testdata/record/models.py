"""Small models with random weights: shapes that users train, sizes that a minute allows."""

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.checkpoint import checkpoint


class Attention(nn.Module):
    def __init__(self, width, heads, how):
        super().__init__()
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)
        self.heads, self.how = heads, how

    def forward(self, x, cache=None):
        b, t, w = x.shape
        q, k, v = self.qkv(x).view(b, t, 3, self.heads, w // self.heads).permute(2, 0, 3, 1, 4)
        if cache is not None:
            k, v = cache(k, v)
        if self.how == "eager":
            scores = q @ k.transpose(-2, -1) / (w // self.heads) ** 0.5
            hidden = torch.ones(t, k.shape[2], dtype=torch.bool, device=x.device).triu(1 + k.shape[2] - t)
            y = scores.masked_fill(hidden, float("-inf")).softmax(-1) @ v
        else:
            backends = {"sdpa": None, "flash": torch.nn.attention.SDPBackend.FLASH_ATTENTION}
            wanted = backends[self.how]
            if wanted is None:
                y = F.scaled_dot_product_attention(q, k, v, is_causal=t > 1)
            else:
                with torch.nn.attention.sdpa_kernel(wanted):
                    y = F.scaled_dot_product_attention(q, k, v, is_causal=t > 1)
        return self.out(y.transpose(1, 2).reshape(b, t, w))


class RMSNorm(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x):
        scale = torch.rsqrt(x.float().pow(2).mean(-1, keepdim=True) + 1e-6)
        return self.weight * (x.float() * scale).to(x.dtype)


class Gated(nn.Module):
    def __init__(self, width):
        super().__init__()
        inner = 8 * width // 3 // 64 * 64
        self.gate, self.up = nn.Linear(width, inner, bias=False), nn.Linear(width, inner, bias=False)
        self.down = nn.Linear(inner, width, bias=False)

    def forward(self, x):
        return self.down(F.silu(self.gate(x)) * self.up(x))


class Block(nn.Module):
    def __init__(self, width, heads, how, kind):
        super().__init__()
        norm = RMSNorm if kind == "llama" else nn.LayerNorm
        self.before, self.after = norm(width), norm(width)
        self.attention = Attention(width, heads, how)
        self.mlp = Gated(width) if kind == "llama" else nn.Sequential(
            nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width), nn.Dropout(0.1))

    def forward(self, x, cache=None):
        x = x + self.attention(self.before(x), cache)
        return x + self.mlp(self.after(x))


class Language(nn.Module):
    """A decoder: gpt2 (LayerNorm, GELU, dropout, positions) or llama (RMSNorm, gated), untied head."""

    def __init__(self, kind="gpt2", how="sdpa", layers=8, width=768, vocabulary=32000, length=1024, checkpointing=False):
        super().__init__()
        self.words = nn.Embedding(vocabulary, width)
        self.places = nn.Embedding(length, width) if kind == "gpt2" else None
        self.blocks = nn.ModuleList(Block(width, width // 64, how, kind) for _ in range(layers))
        self.norm = (RMSNorm if kind == "llama" else nn.LayerNorm)(width)
        self.head = nn.Linear(width, vocabulary, bias=False)
        self.checkpointing = checkpointing

    def forward(self, ids, caches=None, at=0):
        x = self.words(ids)
        if self.places is not None:
            x = x + self.places.weight[at:at + ids.shape[1]]
        for i, block in enumerate(self.blocks):
            if self.checkpointing:
                x = checkpoint(block, x, use_reentrant=False)
            else:
                x = block(x, caches[i] if caches else None)
        return self.head(self.norm(x))


class Convolutions(nn.Module):
    """A residual net for pictures."""

    def __init__(self, width=64, depth=4, classes=1000):
        super().__init__()
        self.stem = nn.Conv2d(3, width, 7, 2, 3)
        stages, w = [], width
        for _ in range(depth):
            stages += [nn.Sequential(nn.Conv2d(w, 2 * w, 3, 2, 1), nn.BatchNorm2d(2 * w), nn.ReLU(inplace=True),
                                     nn.Conv2d(2 * w, 2 * w, 3, 1, 1), nn.BatchNorm2d(2 * w), nn.ReLU(inplace=True))]
            w *= 2
        self.stages = nn.Sequential(*stages)
        self.head = nn.Linear(w, classes)

    def forward(self, x):
        return self.head(self.stages(self.stem(x)).mean((2, 3)))
