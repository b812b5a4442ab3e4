import torch
from torch import nn


class Attention(nn.Module):
    def __init__(self, size=512):
        super().__init__()
        self.q, self.k, self.v = (nn.Linear(size, size) for _ in range(3))

    def forward(self, x, past):
        k, v = self.k(x), self.v(x)
        if past is not None:
            k, v = torch.cat([past[0], k]), torch.cat([past[1], v])
        return torch.softmax(self.q(x) @ k.T, -1) @ v, (k, v)


class Server:
    def __init__(self):
        self.layers = nn.ModuleList(Attention() for _ in range(2)).cuda()
        self.sessions = {}

    def decode(self, x, session):
        for i, layer in enumerate(self.layers):
            x, session[i] = layer(x, session.get(i))
        return x

    @torch.no_grad()
    def handle(self, user, text):
        session = self.sessions.setdefault(user, {})
        x = self.decode(torch.zeros(len(text), 512, device="cuda"), session)
        for _ in range(2):
            x = self.decode(x[-1:], session)
        return x.sum().item()


def main():
    server = Server()
    for i in range(40):
        server.handle(f"user{i}", "x" * 1024)


main()
