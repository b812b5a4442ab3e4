"""Scores documents with an encoder, no training."""
import torch
from torch import nn


@torch.no_grad()
def evaluate(model, documents):
    scores = {}
    for name, tokens in documents:
        hidden = model(tokens.cuda())
        scores[name] = hidden.softmax(-1)
    return {name: s.mean().item() for name, s in scores.items()}


def main():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Embedding(5000, 128), nn.Linear(128, 512), nn.GELU(), nn.Linear(512, 2000)).cuda().eval()
    documents = [(f"doc{i}", torch.randint(0, 5000, (4, 128))) for i in range(40)]
    print(len(evaluate(model, documents)))


main()
