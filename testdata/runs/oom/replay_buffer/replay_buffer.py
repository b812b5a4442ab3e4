import torch
import torch.nn as nn


class ReplayBuffer:
    def __init__(self, size, shape, device):
        self.obs = torch.zeros((size, *shape), dtype=torch.uint8, device=device)
        self.actions = torch.zeros((size, 1), dtype=torch.int64, device=device)
        self.next_obs = torch.zeros((size, *shape), dtype=torch.uint8, device=device)


class Agent:
    def __init__(self):
        self.q = nn.Sequential(nn.Conv2d(4, 32, 8, 4), nn.ReLU(), nn.Flatten(), nn.Linear(12800, 512), nn.ReLU(),
                               nn.Linear(512, 18)).cuda()
        self.opt = torch.optim.Adam(self.q.parameters())
        self.buffer = ReplayBuffer(30_000, (4, 84, 84), "cuda")


agent = Agent()
