import queue

import torch
import torch.nn as nn


class Logger:
    def __init__(self):
        self.q = queue.Queue()

    def log(self, **record):
        self.q.put(record)


def train_step(net, opt, logger, x):
    rec = net(x)
    loss = ((rec - x) ** 2).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
    logger.log(loss=loss.item(), images=x, reconstructions=rec.detach())


net = nn.Sequential(nn.Linear(4096, 1024), nn.ReLU(), nn.Linear(1024, 4096)).cuda()
opt = torch.optim.Adam(net.parameters())
logger = Logger()
for step in range(60):
    train_step(net, opt, logger, torch.rand(1024, 4096, device="cuda"))
