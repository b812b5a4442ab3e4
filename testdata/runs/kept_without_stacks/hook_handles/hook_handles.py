import torch, torch.nn as nn, torch.nn.functional as F
def net(n=4, size=1024):
    return nn.Sequential(*[nn.Linear(size, size) for _ in range(n)]).cuda()
def batch(): return torch.randn(512, 1024).cuda()
class Probe:
    def __init__(self, model): self.model, self.handles = model, []
    def watch(self, reference):
        def hook(module, args, out): return out + 0 * reference.mean()
        self.handles.append(self.model[0].register_forward_hook(hook))
def main():
    model = net(); probe = Probe(model)
    for step in range(20):
        with torch.no_grad():
            reference = model(batch())
            probe.watch(reference)
main()
