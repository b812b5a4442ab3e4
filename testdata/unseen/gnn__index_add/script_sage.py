"""Node classification on one graph that stays on the GPU: messages by indexing, sums by index_add."""
import torch
import torch.nn as nn
import torch.nn.functional as F

NODES, EDGES, FEATURES, CLASSES = 60_000, 720_000, 100, 47


class SageLayer(nn.Module):
    def __init__(self, cin, cout):
        super().__init__()
        self.own = nn.Linear(cin, cout)
        self.neighbours = nn.Linear(cin, cout, bias=False)
        self.gate = nn.Linear(2 * cin, 1)

    def forward(self, x, edge_index, degree):
        src, dst = edge_index
        weight = torch.sigmoid(self.gate(torch.cat([x[src], x[dst]], dim=1)))
        messages = x[src] * weight
        total = torch.zeros_like(x).index_add(0, dst, messages)
        return self.own(x) + self.neighbours(total / degree)


class Net(nn.Module):
    def __init__(self, hidden=128):
        super().__init__()
        self.layers = nn.ModuleList([SageLayer(FEATURES, hidden), SageLayer(hidden, hidden), SageLayer(hidden, CLASSES)])

    def forward(self, x, edge_index, degree):
        for layer in self.layers[:-1]:
            x = F.dropout(F.relu(layer(x, edge_index, degree)), 0.5, self.training)
        return self.layers[-1](x, edge_index, degree)


def load_graph():
    edge_index = torch.randint(0, NODES, (2, EDGES))
    x, y = torch.randn(NODES, FEATURES), torch.randint(0, CLASSES, (NODES,))
    train_idx = torch.randperm(NODES)[: NODES // 2]
    return [t.cuda() for t in (x, y, edge_index, train_idx)]


torch.cuda.memory._record_memory_history(max_entries=100000)
x, y, edge_index, train_idx = load_graph()
ones = torch.ones(EDGES, 1, device="cuda")
degree = torch.zeros(NODES, 1, device="cuda").scatter_add_(0, edge_index[1].unsqueeze(1), ones).clamp_(min=1)
model = Net().cuda()
optimizer = torch.optim.Adagrad(model.parameters(), lr=0.01)

for epoch in range(5):
    model.train()
    out = model(x, edge_index, degree)
    picked = out[train_idx]
    target = y[train_idx]
    loss = F.cross_entropy(picked, target)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    with torch.no_grad():
        accuracy = (out.argmax(dim=1) == y).float().mean()
    print(f"epoch {epoch}: loss {loss.item():.4f} acc {accuracy.item():.4f}")

torch.cuda.memory._dump_snapshot("graph.pickle")
