"""Next-event model of piano rolls with a learned distance bias; pieces grow longer until backward no longer fits."""
import torch
import torch.nn as nn
import torch.nn.functional as F

torch.cuda.memory._record_memory_history(max_entries=150000)
EVENTS, WIDTH, HEADS, DEPTH, LONGEST = 413, 512, 8, 5, 2048


class BiasedAttention(nn.Module):
    def __init__(self):
        super().__init__()
        self.query, self.key, self.value = (nn.Linear(WIDTH, WIDTH) for _ in range(3))
        self.bias = nn.Embedding(2 * LONGEST, HEADS)
        self.merge = nn.Linear(WIDTH, WIDTH)
        self.temperature = nn.Parameter(torch.full((HEADS, 1, 1), (WIDTH // HEADS) ** -0.5))

    def split(self, x):
        return x.view(*x.shape[:2], HEADS, -1).transpose(1, 2)

    def forward(self, x, distance, future):
        q, k, v = self.split(self.query(x)), self.split(self.key(x)), self.split(self.value(x))
        scores = torch.matmul(q, k.transpose(2, 3)) * self.temperature
        scores += self.bias(distance).permute(2, 0, 1)
        scores.masked_fill_(future, -1e9)
        scores = scores.softmax(-1)
        scores = F.dropout(scores, 0.1, self.training)
        y = torch.matmul(scores, v).transpose(1, 2).reshape(x.shape)
        return self.merge(y)


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.attention, self.mlp = BiasedAttention(), nn.Sequential(nn.Linear(WIDTH, 2048), nn.ReLU(), nn.Linear(2048, WIDTH))
        self.ln1, self.ln2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)

    def forward(self, x, distance, future):
        x = self.ln1(x + self.attention(x, distance, future))
        return self.ln2(x + self.mlp(x))


class PianoModel(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(EVENTS, WIDTH)
        self.layers = nn.ModuleList(Layer() for _ in range(DEPTH))
        self.head = nn.Linear(WIDTH, EVENTS)

    def forward(self, events):
        t = torch.arange(events.size(1), device=events.device)
        distance = t[:, None] - t[None, :] + LONGEST
        future = t[None, :] > t[:, None]
        x = self.embed(events)
        for layer in self.layers:
            x = layer(x, distance, future)
        return self.head(x)


def train(model, optimizer):
    for step, length in enumerate((768, 1024, 1280, 1664)):
        events = torch.randint(0, EVENTS, (4, length + 1)).cuda()
        scores = model(events[:, :-1])
        loss = F.cross_entropy(scores.flatten(0, 1), events[:, 1:].flatten())
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        torch.cuda.empty_cache()
        print(step, length, loss.item(), f"{torch.cuda.max_memory_allocated() / 2**30:.2f} GiB")


model = PianoModel().cuda()
try:
    train(model, torch.optim.AdamW(model.parameters(), lr=1e-4))
finally:
    torch.cuda.memory._dump_snapshot("piano.pickle")
