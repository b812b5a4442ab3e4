# Contrastive training of a text embedder with in-batch negatives
import torch
import torch.nn.functional as F
from torch.utils.data import DataLoader
from transformers import AutoModel, AutoTokenizer
from datasets import load_dataset

MODEL = "BAAI/bge-base-en-v1.5"
BATCH_SIZE = 64
MAX_LEN = 256
tokenizer = AutoTokenizer.from_pretrained(MODEL)
model = AutoModel.from_pretrained(MODEL).cuda()
model.train()
optimizer = torch.optim.AdamW(model.parameters(), lr=2e-5)
data = load_dataset("json", data_files="pairs.jsonl", split="train")


def collate(rows):
    def enc(k):
        return tokenizer([r[k] for r in rows], padding="max_length", truncation=True, max_length=MAX_LEN, return_tensors="pt")
    return enc("query"), enc("positive")


def embed(batch):
    out = model(**batch).last_hidden_state
    mask = batch["attention_mask"].unsqueeze(-1).float()
    pooled = (out * mask).sum(1) / mask.sum(1).clamp(min=1e-9)
    return F.normalize(pooled, dim=-1)


loader = DataLoader(data, batch_size=BATCH_SIZE, shuffle=True, collate_fn=collate, drop_last=True)
for epoch in range(3):
    for q, p in loader:
        q = {k: v.cuda() for k, v in q.items()}
        p = {k: v.cuda() for k, v in p.items()}
        with torch.autocast("cuda", dtype=torch.bfloat16):
            qe, pe = embed(q), embed(p)
            scores = qe @ pe.T / 0.05
            loss = F.cross_entropy(scores, torch.arange(scores.size(0), device=scores.device))
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
