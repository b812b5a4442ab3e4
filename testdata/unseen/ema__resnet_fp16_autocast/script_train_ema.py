import copy

import torch
import torch.nn.functional as F
import torchvision

device = "cuda"
torch.cuda.memory._record_memory_history(max_entries=1_000_000)

model = torchvision.models.resnet50(num_classes=500).to(device)
ema = copy.deepcopy(model).eval().requires_grad_(False)
decay, no_decay = [], []
for name, p in model.named_parameters():
    (no_decay if p.ndim == 1 else decay).append(p)
optimizer = torch.optim.SGD([{"params": decay, "weight_decay": 5e-5}, {"params": no_decay, "weight_decay": 0.0}], lr=0.4, momentum=0.9, nesterov=True)
scaler = torch.amp.GradScaler("cuda")


@torch.no_grad()
def update_ema(rate=0.999):
    for e, p in zip(ema.parameters(), model.parameters()):
        e.mul_(rate).add_(p, alpha=1 - rate)
    for e, b in zip(ema.buffers(), model.buffers()):
        e.copy_(b)


for step in range(4):
    images = torch.rand(64, 3, 192, 192, pin_memory=True).to(device, non_blocking=True)
    labels = torch.randint(0, 500, (64,)).to(device)
    with torch.autocast("cuda", dtype=torch.float16):
        scores = model(images)
        loss = F.cross_entropy(scores, labels, label_smoothing=0.1)
    optimizer.zero_grad(set_to_none=True)
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
    update_ema()
    print(f"[{step}] loss={loss.item():.3f} mem={torch.cuda.max_memory_allocated() / 2**30:.2f}G")

torch.cuda.memory._dump_snapshot("resnet_ema.pickle")
