"""A longer prompt each time, with attention that writes out the scores of all pairs of tokens."""

import torch
from torch import nn


def eager_attention_forward(query, key, value):
    weights = torch.matmul(query, key.transpose(2, 3)) * query.shape[-1] ** -0.5
    weights = nn.functional.softmax(weights, dim=-1, dtype=torch.float32).to(query.dtype)
    return torch.matmul(weights, value)


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.qkv, self.out = nn.Linear(1024, 3072), nn.Linear(1024, 1024)

    def forward(self, x):
        b, n, d = x.shape
        q, k, v = self.qkv(x).view(b, n, 3, 16, d // 16).permute(2, 0, 3, 1, 4)
        return x + self.out(eager_attention_forward(q, k, v).transpose(1, 2).reshape(b, n, d))


model = nn.Sequential(nn.Embedding(1000, 1024), *[Layer() for _ in range(6)], nn.Linear(1024, 1000)).cuda().half().eval()
for length in (256, 1024, 2048, 6000):
    with torch.no_grad():
        out = model(torch.randint(0, 1000, (1, length), device="cuda"))
