import torch
from torch.utils.data import DataLoader
from transformers import AutoModelForCausalLM, get_cosine_schedule_with_warmup

seq_len = 512
batch_size = 4
model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen2.5-1.5B", dtype=torch.bfloat16).cuda()
model.train()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5, fused=True)
data = [torch.zeros(seq_len, dtype=torch.long) for _ in range(256)]
loader = DataLoader(data, batch_size=batch_size, shuffle=True)
for epoch in range(1):
    for step, batch in enumerate(loader):
        input_ids = batch.cuda()
        outputs = model(input_ids=input_ids, labels=input_ids)
        loss = outputs.loss
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        if step % 10 == 0:
            print(step, loss.item())
