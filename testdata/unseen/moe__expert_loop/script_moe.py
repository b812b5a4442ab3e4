"""Mixture of experts: every expert takes its best tokens, a Python loop runs the experts. All in bfloat16."""
import torch
import torch.nn as nn
import torch.nn.functional as F


class Expert(nn.Module):
    def __init__(self, dim, hidden):
        super().__init__()
        self.gate_up = nn.Linear(dim, 2 * hidden, bias=False)
        self.down = nn.Linear(hidden, dim, bias=False)

    def forward(self, x):
        gate, up = self.gate_up(x).chunk(2, dim=-1)
        return self.down(F.silu(gate) * up)


class ExpertChoice(nn.Module):
    def __init__(self, dim, hidden, experts, factor=2.0):
        super().__init__()
        self.router = nn.Linear(dim, experts, bias=False)
        self.experts = nn.ModuleList(Expert(dim, hidden) for _ in range(experts))
        self.factor = factor

    def forward(self, x):
        flat = x.reshape(-1, x.size(-1))
        scores = self.router(flat).float().softmax(dim=-1)
        capacity = int(self.factor * flat.size(0) / len(self.experts))
        out = torch.zeros_like(flat)
        for k, expert in enumerate(self.experts):
            weight, tokens = torch.topk(scores[:, k], capacity)
            y = expert(flat[tokens]) * weight.unsqueeze(-1).to(flat.dtype)
            out = out.index_add(0, tokens, y)
        return out.view_as(x)


class Layer(nn.Module):
    def __init__(self, dim, heads, hidden, experts):
        super().__init__()
        self.norm1, self.norm2 = nn.RMSNorm(dim), nn.RMSNorm(dim)
        self.qkv, self.proj = nn.Linear(dim, 3 * dim, bias=False), nn.Linear(dim, dim, bias=False)
        self.heads = heads
        self.moe = ExpertChoice(dim, hidden, experts)

    def forward(self, x):
        b, t, d = x.shape
        q, k, v = (z.view(b, t, self.heads, -1).transpose(1, 2) for z in self.qkv(self.norm1(x)).chunk(3, dim=-1))
        a = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.proj(a.transpose(1, 2).reshape(b, t, d))
        return x + self.moe(self.norm2(x))


class MoE(nn.Module):
    def __init__(self, vocab=50000, dim=896, heads=14, layers=4, experts=8):
        super().__init__()
        self.embed = nn.Embedding(vocab, dim)
        self.layers = nn.ModuleList(Layer(dim, heads, 1536, experts) for _ in range(layers))
        self.norm = nn.RMSNorm(dim)
        self.head = nn.Linear(dim, vocab, bias=False)

    def forward(self, ids):
        x = self.embed(ids)
        for layer in self.layers:
            x = layer(x)
        return self.head(self.norm(x))


def main(steps=4, batch=8, length=768):
    torch.cuda.memory._record_memory_history()
    model = MoE().to(device="cuda", dtype=torch.bfloat16)
    opt = torch.optim.AdamW(model.parameters(), lr=1e-4)
    print(sum(p.numel() for p in model.parameters()) / 1e6, "M parameters")
    for step in range(steps):
        tokens = torch.randint(0, 50000, (batch, length + 1), device="cuda")
        logits = model(tokens[:, :-1])
        logits = logits.float()
        loss = F.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten())
        loss.backward()
        opt.step()
        opt.zero_grad(set_to_none=True)
        print("step", step, "loss", loss.item(), "max", torch.cuda.max_memory_allocated())
    torch.cuda.memory._dump_snapshot("moe.pickle")


if __name__ == "__main__":
    main()
