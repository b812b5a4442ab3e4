import torch, torch.nn as nn

def train(width, steps=3):
    model = nn.Sequential(nn.Linear(64, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(), nn.Linear(width, 10)).cuda()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    for _ in range(steps):
        x, y = torch.randn(256, 64, device="cuda"), torch.randint(0, 10, (256,), device="cuda")
        loss = nn.functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    return {"model": model, "optimizer": optimizer, "loss": loss.item()}

results = {}
for trial in range(12):
    results[trial] = train(4096)
    print(trial, results[trial]["loss"], flush=True)
