"""Continues a run from a checkpoint file: model and optimizer state are read straight to the GPU."""
import os
import sys
import tempfile

import torch
import torch.nn as nn
import torch.nn.functional as F

VOCAB, DIM, LAYERS, LENGTH = 28000, 768, 6, 384


class Encoder(nn.Module):
    """masked language model"""

    def __init__(self):
        super().__init__()
        self.words, self.places = nn.Embedding(VOCAB, DIM), nn.Embedding(LENGTH, DIM)
        self.layers = nn.ModuleList(nn.TransformerEncoderLayer(DIM, 12, 3072, batch_first=True, activation=F.gelu) for _ in range(LAYERS))
        self.decoder = nn.Linear(DIM, VOCAB)

    def forward(self, ids):
        x = self.words(ids) + self.places.weight[: ids.size(1)]
        for layer in self.layers:
            x = layer(x)
        return self.decoder(x)


def previous_run(path):
    """what a run that ended yesterday has left behind"""
    model = Encoder()
    optimizer = torch.optim.AdamW(model.parameters(), fused=True)
    for p in model.parameters():
        optimizer.state[p] = {"step": torch.tensor(5000.0), "exp_avg": torch.zeros_like(p), "exp_avg_sq": torch.zeros_like(p)}
    torch.save({"step": 5000, "model": model.state_dict(), "optimizer": optimizer.state_dict()}, path)


def resume(path, model, optimizer):
    checkpoint = torch.load(path, map_location="cuda")
    model.load_state_dict(checkpoint["model"])
    optimizer.load_state_dict(checkpoint["optimizer"])
    return checkpoint["step"]


def main(path):
    model = Encoder().cuda()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    first = resume(path, model, optimizer)
    print("resumed at", first)
    for step in range(first, first + 4):
        ids = torch.randint(0, VOCAB, (12, LENGTH)).cuda()
        logits = model(ids)
        loss = F.cross_entropy(logits.view(-1, VOCAB), ids.view(-1))
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        print(step, loss.item(), torch.cuda.memory_allocated() >> 20, torch.cuda.max_memory_allocated() >> 20)


if __name__ == "__main__":
    path = os.path.join(tempfile.gettempdir(), "encoder_last.pt")
    previous_run(path)
    torch.cuda.memory._record_memory_history(max_entries=250000)
    try:
        main(path)
    finally:
        os.unlink(path)
        torch.cuda.memory._dump_snapshot("resumed.pickle")
