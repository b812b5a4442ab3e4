# translation with torch.nn.Transformer, label smoothing and a warm-up schedule
import math

import torch
import torch.nn as nn

SRC_VOCAB, TGT_VOCAB, PAD = 18000, 22000, 1


class PositionalEncoding(nn.Module):
    def __init__(self, d_model, max_len=512):
        super().__init__()
        pos = torch.arange(max_len).unsqueeze(1)
        div = torch.exp(torch.arange(0, d_model, 2) * (-math.log(10000.0) / d_model))
        pe = torch.zeros(1, max_len, d_model)
        pe[0, :, 0::2], pe[0, :, 1::2] = torch.sin(pos * div), torch.cos(pos * div)
        self.register_buffer("pe", pe)
        self.dropout = nn.Dropout(0.1)

    def forward(self, x):
        return self.dropout(x + self.pe[:, : x.size(1)])


class Translator(nn.Module):
    def __init__(self, d_model=512):
        super().__init__()
        self.src_emb = nn.Embedding(SRC_VOCAB, d_model, padding_idx=PAD)
        self.tgt_emb = nn.Embedding(TGT_VOCAB, d_model, padding_idx=PAD)
        self.position = PositionalEncoding(d_model)
        self.transformer = nn.Transformer(d_model, 8, 4, 4, 2048, dropout=0.1, batch_first=True)
        self.generator = nn.Linear(d_model, TGT_VOCAB)
        self.scale = math.sqrt(d_model)

    def forward(self, src, tgt, tgt_mask, src_pad, tgt_pad):
        s = self.position(self.src_emb(src) * self.scale)
        t = self.position(self.tgt_emb(tgt) * self.scale)
        h = self.transformer(s, t, tgt_mask=tgt_mask, src_key_padding_mask=src_pad, tgt_key_padding_mask=tgt_pad, memory_key_padding_mask=src_pad)
        return self.generator(h)


def make_batch(n=48, src_len=112, tgt_len=97):
    return torch.randint(2, SRC_VOCAB, (n, src_len), device="cuda"), torch.randint(2, TGT_VOCAB, (n, tgt_len), device="cuda")


torch.cuda.memory._record_memory_history(max_entries=1_000_000)
model = Translator().cuda()
criterion = nn.CrossEntropyLoss(ignore_index=PAD, label_smoothing=0.1)
optimizer = torch.optim.Adam(model.parameters(), lr=1.0, betas=(0.9, 0.98), eps=1e-9)
schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda k: 512**-0.5 * min((k + 1) ** -0.5, (k + 1) * 4000**-1.5))
causal = torch.triu(torch.ones(96, 96, dtype=torch.bool, device="cuda"), diagonal=1)

for it in range(4):
    src, tgt = make_batch()
    tgt_in, tgt_out = tgt[:, :-1], tgt[:, 1:]
    src_pad, tgt_pad = src == PAD, tgt_in == PAD
    logits = model(src, tgt_in, causal, src_pad, tgt_pad)
    loss = criterion(logits.reshape(-1, TGT_VOCAB), tgt_out.reshape(-1))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    schedule.step()
    print("iteration", it, "loss", float(loss))

torch.cuda.memory._dump_snapshot("translate.pickle")
