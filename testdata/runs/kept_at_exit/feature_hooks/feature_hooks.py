"""Forward hooks that gather activations of some layers for a plot."""
import collections
import torch, torch.nn as nn, torch.nn.functional as F

class Recorder:
    def __init__(self, model, names):
        self.features = collections.defaultdict(list)
        for name, module in model.named_modules():
            if name in names:
                module.register_forward_hook(self.make(name))

    def make(self, name):
        def hook(module, inputs, output):
            self.features[name].append(output)
        return hook

def build():
    return nn.Sequential(nn.Linear(256, 1024), nn.GELU(), nn.Linear(1024, 1024), nn.GELU(), nn.Linear(1024, 1024), nn.GELU(),
                         nn.Linear(1024, 16)).cuda()

def main():
    model = build()
    recorder = Recorder(model, {"2", "4"})
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    for step in range(18):
        x, y = torch.randn(1024, 256, device="cuda"), torch.randint(0, 16, (1024,), device="cuda")
        optimizer.zero_grad()
        F.cross_entropy(model(x), y).backward()
        optimizer.step()
    print({k: len(v) for k, v in recorder.features.items()})

main()
