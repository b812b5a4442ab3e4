"""A language model whose loss asks for the logits in fp32, which doesn't fit."""

import torch
from torch import nn

VOCABULARY, WIDTH = 64000, 256


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(VOCABULARY, WIDTH)
        self.layers = nn.ModuleList(nn.TransformerEncoderLayer(WIDTH, 4, 1024, batch_first=True) for _ in range(2))
        self.head = nn.Linear(WIDTH, VOCABULARY, bias=False)

    def forward(self, ids):
        x = self.embedding(ids)
        for layer in self.layers:
            x = layer(x)
        return self.head(x)


net = Net().bfloat16().cuda()
optimizer = torch.optim.SGD(net.parameters(), 0.1)
for _ in range(2):
    ids = torch.randint(0, VOCABULARY, (8, 512), device="cuda")
    logits = net(ids)
    nn.functional.cross_entropy(logits.float().flatten(0, 1), ids.flatten()).backward()
    optimizer.step()
    optimizer.zero_grad()
