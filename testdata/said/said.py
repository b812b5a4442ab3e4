"""A small training that says what it does: metadata on allocations, pinned batches, a graph of torch.fx whose
lines lead back to the model's, and anomaly detection, by which backward allocations know the forward stack.

    python said.py FILE
"""

import sys

import torch
from torch import fx, nn
from torch.cuda import memory


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(4096, 256)
        self.up = nn.Linear(256, 1024)
        self.down = nn.Linear(1024, 256)
        self.head = nn.Linear(256, 4096)

    def forward(self, tokens):
        h = self.embed(tokens)
        h = self.down(torch.relu(self.up(h)))
        return self.head(h)


def train(net, optimizer, steps):
    loss_of = nn.CrossEntropyLoss()
    for step in range(steps):
        batch = torch.randint(0, 4096, (32, 256)).pin_memory()
        tokens = batch.to("cuda", non_blocking=True)
        memory._set_memory_metadata(f"forward {step}")
        out = net(tokens)
        memory._set_memory_metadata({"part": "loss", "step": step})
        loss = loss_of(out.view(-1, 4096), tokens.view(-1))
        memory._set_memory_metadata("")
        loss.backward()
        memory._set_memory_metadata("optimizer")
        optimizer.step()
        optimizer.zero_grad()
        memory._set_memory_metadata("")
        del out, loss, tokens, batch


def main(file):
    memory._record_memory_history(max_entries=100000, stacks="python", record_pinned_host_memory=True)
    memory._set_memory_metadata("model")
    net = Net().cuda()
    memory._set_memory_metadata("")
    kept = [torch.empty(2 << 20, dtype=torch.uint8, pin_memory=True) for _ in range(3)]
    with fx.experimental._config.patch(enrich_profiler_metadata=True), torch.autograd.set_detect_anomaly(True, check_nan=False):
        train(torch.compile(net, backend="eager"), torch.optim.AdamW(net.parameters()), 3)
    memory._dump_snapshot(file, augment_with_fx_traces=True)
    del kept


if __name__ == "__main__":
    main(sys.argv[1])
