"""The last 12 outputs, in a window that is full after a third of the run; a cut list, not a deque."""
import torch, torch.nn as nn, torch.nn.functional as F
def main():
    model = nn.Sequential(nn.Linear(512, 1024), nn.ReLU(), nn.Linear(1024, 512)).cuda()
    optimizer, window = torch.optim.SGD(model.parameters(), lr=0.1), []
    for step in range(36):
        x = torch.randn(768, 512).cuda()
        out = model(x)
        loss = F.mse_loss(out, x)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        window.append(out.detach())
        window = window[-12:]
main()
