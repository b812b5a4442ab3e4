"""Sampling with keys and values in tensors that are allocated once for the longest answer."""
import torch
import torch.nn as nn
import torch.nn.functional as F


class GQA(nn.Module):
    def __init__(self, dim, heads, groups):
        super().__init__()
        self.heads, self.groups, self.size = heads, groups, dim // heads
        self.wq = nn.Linear(dim, dim, bias=False)
        self.wkv = nn.Linear(dim, 2 * groups * self.size, bias=False)
        self.wo = nn.Linear(dim, dim, bias=False)

    def forward(self, x, cache, start):
        b, t, d = x.shape
        q = self.wq(x).view(b, t, self.heads, self.size).transpose(1, 2)
        k, v = self.wkv(x).view(b, t, 2, self.groups, self.size).permute(2, 0, 3, 1, 4)
        keys, values = cache
        keys[:, :, start : start + t] = k
        values[:, :, start : start + t] = v
        k = keys[:, :, : start + t].repeat_interleave(self.heads // self.groups, dim=1)
        v = values[:, :, : start + t].repeat_interleave(self.heads // self.groups, dim=1)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=t > 1)
        return self.wo(y.transpose(1, 2).reshape(b, t, d))


class Block(nn.Module):
    def __init__(self, dim, heads, groups):
        super().__init__()
        self.n1, self.n2 = nn.RMSNorm(dim), nn.RMSNorm(dim)
        self.att = GQA(dim, heads, groups)
        self.ff = nn.Sequential(nn.Linear(dim, 4 * dim, bias=False), nn.SiLU(), nn.Linear(4 * dim, dim, bias=False))

    def forward(self, x, cache, start):
        x = x + self.att(self.n1(x), cache, start)
        return x + self.ff(self.n2(x))


class Model(nn.Module):
    def __init__(self, vocab=32768, dim=1536, heads=24, groups=8, layers=14):
        super().__init__()
        self.emb = nn.Embedding(vocab, dim)
        self.blocks = nn.ModuleList(Block(dim, heads, groups) for _ in range(layers))
        self.norm, self.out = nn.RMSNorm(dim), nn.Linear(dim, vocab, bias=False)

    def new_cache(self, batch, longest):
        a = self.blocks[0].att
        shape = (batch, a.groups, longest, a.size)
        return [(torch.zeros(shape, dtype=torch.bfloat16, device="cuda"), torch.zeros(shape, dtype=torch.bfloat16, device="cuda")) for _ in self.blocks]

    def forward(self, ids, caches, start):
        x = self.emb(ids)
        for block, cache in zip(self.blocks, caches):
            x = block(x, cache, start)
        return self.out(self.norm(x[:, -1]))


@torch.inference_mode()
def generate(model, prompt, new_tokens, temperature=0.7, nucleus=0.9):
    batch, length = prompt.shape
    caches = model.new_cache(batch, length + new_tokens)
    answer, ids, start = [], prompt, 0
    for i in range(new_tokens):
        scores = model(ids, caches, start)
        start += ids.shape[1]
        scaled = scores.float() / temperature
        probs = torch.softmax(scaled, dim=-1)
        top, order = probs.sort(dim=-1, descending=True)
        top[top.cumsum(-1) - top > nucleus] = 0
        pick = torch.multinomial(top / top.sum(-1, keepdim=True), 1)
        ids = order.gather(1, pick)
        answer.append(ids)
    return torch.cat(answer, dim=1)


if __name__ == "__main__":
    torch.cuda.memory._record_memory_history(max_entries=200000)
    model = Model().to("cuda", torch.bfloat16).eval()
    prompt = torch.randint(0, 32768, (24, 700), device="cuda")
    out = generate(model, prompt, 20)
    print(tuple(out.shape), torch.cuda.max_memory_allocated() / 2**30)
    torch.cuda.memory._dump_snapshot("sampling.pickle")
