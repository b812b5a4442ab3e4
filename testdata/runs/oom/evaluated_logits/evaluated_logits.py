import torch
import torch.nn as nn

model = nn.Sequential(nn.Embedding(8192, 256), nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 8192)).cuda()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)


def evaluate():
    model.eval()
    all_logits, all_labels = [], []
    with torch.no_grad():
        for _ in range(40):
            ids = torch.randint(0, 8192, (8, 256), device="cuda")
            all_logits.append(model(ids).float())
            all_labels.append(ids)
    return (torch.cat(all_logits).argmax(-1) == torch.cat(all_labels)).float().mean()


for step in range(8):
    model.train()
    ids = torch.randint(0, 8192, (4, 256), device="cuda")
    loss = nn.functional.cross_entropy(model(ids).flatten(0, 1), ids.flatten())
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    if step == 5:
        print(evaluate())
