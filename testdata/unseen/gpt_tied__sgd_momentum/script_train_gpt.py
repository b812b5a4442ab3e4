"""A small GPT, attention written out, embedding and output share their weight."""
import math

import torch
import torch.nn as nn
import torch.nn.functional as F

VOCAB, CTX, DIM, HEADS, LAYERS = 32000, 512, 640, 10, 6
BATCH, STEPS = 6, 5


class SelfAttention(nn.Module):
    def __init__(self):
        super().__init__()
        self.qkv = nn.Linear(DIM, 3 * DIM)
        self.out = nn.Linear(DIM, DIM)
        self.drop = nn.Dropout(0.1)
        self.register_buffer("causal", torch.tril(torch.ones(CTX, CTX)).view(1, 1, CTX, CTX))

    def forward(self, x):
        b, t, c = x.shape
        q, k, v = self.qkv(x).split(DIM, dim=2)
        q = q.view(b, t, HEADS, c // HEADS).transpose(1, 2)
        k = k.view(b, t, HEADS, c // HEADS).transpose(1, 2)
        v = v.view(b, t, HEADS, c // HEADS).transpose(1, 2)
        att = q @ k.transpose(-2, -1) / math.sqrt(c // HEADS)
        att = att.masked_fill(self.causal[:, :, :t, :t] == 0, float("-inf"))
        att = self.drop(F.softmax(att, dim=-1))
        y = (att @ v).transpose(1, 2).contiguous().view(b, t, c)
        return self.out(y)


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.ln1, self.ln2 = nn.LayerNorm(DIM), nn.LayerNorm(DIM)
        self.attn = SelfAttention()
        self.up, self.down = nn.Linear(DIM, 4 * DIM), nn.Linear(4 * DIM, DIM)

    def forward(self, x):
        x = x + self.attn(self.ln1(x))
        return x + self.down(F.gelu(self.up(self.ln2(x))))


class TinyGPT(nn.Module):
    def __init__(self):
        super().__init__()
        self.tok, self.pos = nn.Embedding(VOCAB, DIM), nn.Embedding(CTX, DIM)
        self.blocks = nn.ModuleList([Block() for _ in range(LAYERS)])
        self.ln = nn.LayerNorm(DIM)
        self.head = nn.Linear(DIM, VOCAB, bias=False)
        self.head.weight = self.tok.weight

    def forward(self, idx, targets):
        x = self.tok(idx) + self.pos(torch.arange(idx.shape[1], device=idx.device))
        for block in self.blocks:
            x = block(x)
        logits = self.head(self.ln(x))
        return F.cross_entropy(logits.view(-1, VOCAB), targets.view(-1))


def batches():
    text = torch.randint(0, VOCAB, (400_000,))
    while True:
        start = torch.randint(0, len(text) - CTX - 1, (BATCH,)).tolist()
        x = torch.stack([text[i : i + CTX] for i in start])
        y = torch.stack([text[i + 1 : i + CTX + 1] for i in start])
        yield x.to("cuda"), y.to("cuda")


def train():
    model = TinyGPT().to("cuda")
    opt = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9, weight_decay=1e-4)
    data = batches()
    for step in range(STEPS):
        x, y = next(data)
        loss = model(x, y)
        loss.backward()
        opt.step()
        opt.zero_grad()
        print(f"{step:4d}  loss {loss.item():.3f}  peak {torch.cuda.max_memory_allocated() / 2**20:.0f} MiB")


if __name__ == "__main__":
    torch.manual_seed(1)
    torch.cuda.memory._record_memory_history(max_entries=200_000)
    train()
    torch.cuda.memory._dump_snapshot("gpt.pickle")
