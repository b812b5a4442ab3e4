"""Sentence classification: the lower half of a RoBERTa is frozen, two learning rates for the rest."""
import torch
from transformers import RobertaConfig, RobertaForSequenceClassification, get_linear_schedule_with_warmup


def build():
    config = RobertaConfig(vocab_size=30000, hidden_size=640, num_hidden_layers=8, num_attention_heads=10, intermediate_size=2560, num_labels=5, max_position_embeddings=260)
    model = RobertaForSequenceClassification(config)
    for part in (model.roberta.embeddings, *model.roberta.encoder.layer[:4]):
        part.requires_grad_(False)
    return model


def sentences(n, length=192):
    return {"input_ids": torch.randint(5, 30000, (n, length)), "labels": torch.randint(0, 5, (n,))}


def main():
    torch.cuda.memory._record_memory_history(max_entries=250000)
    model = build().to("cuda").train()
    head = list(model.classifier.parameters())
    body = [p for n, p in model.named_parameters() if p.requires_grad and not n.startswith("classifier")]
    optimizer = torch.optim.AdamW([{"params": body, "lr": 2e-5}, {"params": head, "lr": 1e-3}], weight_decay=0.01)
    schedule = get_linear_schedule_with_warmup(optimizer, 2, 100)
    total = torch.zeros((), device="cuda")
    for step in range(5):
        batch = {k: v.to("cuda") for k, v in sentences(64).items()}
        output = model(**batch)
        output.loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        optimizer.zero_grad()
        total += output.loss.detach()
        if (step + 1) % 2 == 0:
            print(f"step {step + 1}: mean loss {total.item() / 2:.4f}, {torch.cuda.max_memory_allocated() / 2**20:.0f} MiB at most")
            total.zero_()
    torch.cuda.memory._dump_snapshot("roberta.pickle")


if __name__ == "__main__":
    main()
