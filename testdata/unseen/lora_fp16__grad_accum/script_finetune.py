"""Adapters by hand: half-precision frozen weights, float32 low-rank matrices, gradients accumulated over three micro-batches."""
import torch
import torch.nn as nn
import torch.nn.functional as F


class Attention(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.q_proj, self.k_proj, self.v_proj, self.o_proj = (nn.Linear(dim, dim, bias=False) for _ in range(4))

    def forward(self, x):
        b, t, d = x.shape
        q, k, v = (p(x).view(b, t, self.heads, -1).transpose(1, 2) for p in (self.q_proj, self.k_proj, self.v_proj))
        return self.o_proj(F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(b, t, d))


class DecoderLayer(nn.Module):
    def __init__(self, dim, heads, hidden):
        super().__init__()
        self.norm1, self.norm2 = nn.RMSNorm(dim), nn.RMSNorm(dim)
        self.attn = Attention(dim, heads)
        self.gate, self.up, self.down = nn.Linear(dim, hidden, bias=False), nn.Linear(dim, hidden, bias=False), nn.Linear(hidden, dim, bias=False)

    def forward(self, x):
        x = x + self.attn(self.norm1(x))
        h = self.norm2(x)
        return x + self.down(F.silu(self.gate(h)) * self.up(h))


class Decoder(nn.Module):
    def __init__(self, vocab=30000, dim=1280, heads=20, hidden=3456, layers=8):
        super().__init__()
        self.embed = nn.Embedding(vocab, dim)
        self.layers = nn.ModuleList(DecoderLayer(dim, heads, hidden) for _ in range(layers))
        self.norm, self.head = nn.RMSNorm(dim), nn.Linear(dim, vocab, bias=False)

    def forward(self, ids):
        x = self.embed(ids)
        for layer in self.layers:
            x = layer(x)
        return self.head(self.norm(x))


class LowRank(nn.Module):
    def __init__(self, base, rank=16, alpha=32, dropout=0.05):
        super().__init__()
        self.base = base
        self.down = nn.Parameter(torch.randn(rank, base.in_features) * 0.02)
        self.up = nn.Parameter(torch.zeros(base.out_features, rank))
        self.scale, self.dropout = alpha / rank, nn.Dropout(dropout)

    def forward(self, x):
        low = self.dropout(x.float()) @ self.down.t() @ self.up.t()
        return self.base(x) + (low * self.scale).to(x.dtype)


def add_adapters(model):
    for p in model.parameters():
        p.requires_grad_(False)
    for layer in model.layers:
        layer.attn.q_proj = LowRank(layer.attn.q_proj)
        layer.attn.v_proj = LowRank(layer.attn.v_proj)
    return [p for p in model.parameters() if p.requires_grad]


def main():
    torch.cuda.memory._record_memory_history(max_entries=400000)
    model = Decoder().half().cuda()
    trainable = add_adapters(model)
    model.cuda()
    optimizer = torch.optim.AdamW(trainable, lr=2e-4)
    accumulate, micro, length = 3, 4, 512
    for step in range(3):
        for k in range(accumulate):
            ids = torch.randint(0, 30000, (micro, length)).cuda()
            logits = model(ids)
            shifted = logits[:, :-1].float()
            loss = F.cross_entropy(shifted.reshape(-1, shifted.size(-1)), ids[:, 1:].reshape(-1)) / accumulate
            loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        print(f"update {step} loss {loss.item() * accumulate:.4f} allocated {torch.cuda.memory_allocated() / 2**20:.0f} MiB")
    torch.cuda.memory._dump_snapshot("adapters.pickle")


main()
