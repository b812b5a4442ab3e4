import torch
from torch.amp import GradScaler, autocast
from torch.utils.data import DataLoader, Dataset
from tqdm import tqdm
from transformers import ViTForImageClassification

device = "cuda"
NUM_CLASSES = 101
BATCH_SIZE = 128
EPOCHS = 5


class Food(Dataset):
    def __len__(self):
        return 2048

    def __getitem__(self, i):
        return torch.zeros(3, 224, 224), i % NUM_CLASSES


model = ViTForImageClassification.from_pretrained("google/vit-base-patch16-224-in21k", num_labels=NUM_CLASSES)
model.to(device)
loader = DataLoader(Food(), batch_size=BATCH_SIZE, shuffle=True, num_workers=0, pin_memory=True)
optimizer = torch.optim.AdamW(model.parameters(), lr=5e-5, weight_decay=0.05)
scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=EPOCHS * len(loader))
criterion = torch.nn.CrossEntropyLoss(label_smoothing=0.1)
scaler = GradScaler("cuda")

for epoch in range(EPOCHS):
    model.train()
    for images, labels in tqdm(loader):
        images, labels = images.to(device, non_blocking=True), labels.to(device, non_blocking=True)
        optimizer.zero_grad(set_to_none=True)
        with autocast("cuda", dtype=torch.float16):
            outputs = model(pixel_values=images)
            loss = criterion(outputs.logits, labels)
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
        scheduler.step()
