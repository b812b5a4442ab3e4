"""A method with lru_cache: keeps the object and every result."""
from functools import lru_cache
import torch, torch.nn as nn, torch.nn.functional as F

class Teacher:
    def __init__(self):
        self.model = nn.Sequential(nn.Linear(512, 1536), nn.GELU(), nn.Linear(1536, 1536), nn.GELU(), nn.Linear(1536, 512)).cuda().eval()

    @lru_cache(maxsize=None)
    @torch.no_grad()
    def targets(self, index):
        g = torch.Generator(device="cpu").manual_seed(index)
        x = torch.randn(512, 512, generator=g).cuda()
        return x, self.model(x)

def train(student, teacher, optimizer, steps):
    for step in range(steps):
        x, t = teacher.targets(step)
        loss = F.mse_loss(student(x), t)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()

def main():
    student = nn.Sequential(nn.Linear(512, 512), nn.GELU(), nn.Linear(512, 512)).cuda()
    train(student, Teacher(), torch.optim.Adam(student.parameters()), 22)

if __name__ == "__main__":
    main()
