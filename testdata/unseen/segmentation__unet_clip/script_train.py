import argparse

import torch
from torch import nn
from torch.nn import functional as F
from torch.nn.utils import clip_grad_norm_


def double_conv(cin, cout):
    return nn.Sequential(
        nn.Conv2d(cin, cout, 3, padding=1), nn.BatchNorm2d(cout), nn.ReLU(inplace=True),
        nn.Conv2d(cout, cout, 3, padding=1), nn.BatchNorm2d(cout), nn.ReLU(inplace=True),
    )


class UNet(nn.Module):
    def __init__(self, classes, width=48, depth=4):
        super().__init__()
        chans = [width * 2**i for i in range(depth)]
        self.down = nn.ModuleList()
        cin = 3
        for c in chans:
            self.down.append(double_conv(cin, c))
            cin = c
        self.middle = double_conv(cin, cin * 2)
        self.up, self.merge = nn.ModuleList(), nn.ModuleList()
        for c in reversed(chans):
            self.up.append(nn.ConvTranspose2d(c * 2, c, 2, stride=2))
            self.merge.append(double_conv(c * 2, c))
        self.classify = nn.Conv2d(width, classes, 1)

    def forward(self, x):
        skips = []
        for stage in self.down:
            x = stage(x)
            skips.append(x)
            x = F.max_pool2d(x, 2)
        x = self.middle(x)
        for up, merge in zip(self.up, self.merge):
            x = merge(torch.cat([up(x), skips.pop()], dim=1))
        return self.classify(x)


class RandomScenes(torch.utils.data.Dataset):
    def __len__(self):
        return 40

    def __getitem__(self, i):
        return torch.rand(3, 256, 256), torch.randint(0, 21, (256, 256))


def main(args):
    device = torch.device("cuda")
    net = UNet(21).to(device)
    optimizer = torch.optim.Adam(net.parameters(), lr=args.lr)
    loader = torch.utils.data.DataLoader(RandomScenes(), batch_size=args.batch_size, shuffle=True, drop_last=True)
    net.train()
    for i, (images, masks) in enumerate(loader):
        images, masks = images.to(device), masks.to(device)
        optimizer.zero_grad(set_to_none=True)
        scores = net(images)
        loss = F.cross_entropy(scores, masks)
        loss.backward()
        norm = clip_grad_norm_(net.parameters(), max_norm=1.0)
        optimizer.step()
        print(f"iter {i} loss {loss.item():.4f} norm {norm.item():.3f}")
    print("max allocated", torch.cuda.max_memory_allocated())


if __name__ == "__main__":
    p = argparse.ArgumentParser()
    p.add_argument("--lr", type=float, default=3e-4)
    p.add_argument("--batch-size", type=int, default=8)
    torch.cuda.memory._record_memory_history()
    main(p.parse_args())
    torch.cuda.memory._dump_snapshot("unet_mem.pickle")
