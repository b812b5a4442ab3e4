import torch
from torch import nn


class Square(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        y = x * x
        ctx.x = x
        ctx.y = y
        return y

    @staticmethod
    def backward(ctx, grad):
        return 2 * ctx.x * grad


def main():
    first, last = nn.Linear(128, 2048).cuda(), nn.Linear(2048, 1).cuda()
    optimizer = torch.optim.SGD([*first.parameters(), *last.parameters()], lr=1e-3)
    for _ in range(14):
        x = torch.randn(512, 128, device="cuda")
        loss = last(Square.apply(first(x))).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


if __name__ == "__main__":
    main()
