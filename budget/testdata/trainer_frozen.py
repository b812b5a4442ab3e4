"""Programs of Transformers' Trainer that leave a part of a model untrained, or take an optimizer's arguments: what recipes.jsonl has of
them. Run as `vramscope run --simulate "H100 80GB" -- python trainer_frozen.py classifier|whisper|vit`; the peak is of requested bytes."""

import json
import pathlib
import sys

import torch
import transformers
from torch.utils.data import Dataset

kind = sys.argv[1]
row = next(
    r
    for r in map(json.loads, (pathlib.Path(__file__).parent / "recipes.jsonl").read_text().splitlines())
    if r["program"] == "trainer_frozen.py" and r["arguments"] == [kind]
)
fields = dict(row["config"])
config = transformers.AutoConfig.for_model(fields.pop("model_type"), **fields)


class Rows(Dataset):
    def __len__(self):
        return 512

    def __getitem__(self, i):
        if kind == "classifier":
            words = torch.full((256,), 5)
            return {"input_ids": words, "attention_mask": torch.ones_like(words), "labels": i % 3}
        if kind == "whisper":
            return {"input_features": torch.zeros(80, 3000), "labels": torch.ones(192, dtype=torch.long)}
        return {"pixel_values": torch.zeros(3, 224, 224), "labels": i % 100}


shared = {"output_dir": "out", "max_steps": 3, "save_strategy": "no", "report_to": "none", "remove_unused_columns": False}
if kind == "classifier":
    model = transformers.AutoModelForSequenceClassification.from_config(config)
    for p in model.roberta.embeddings.parameters():
        p.requires_grad = False
    args = transformers.TrainingArguments(fp16=True, per_device_train_batch_size=32, **shared)
elif kind == "whisper":
    model = transformers.WhisperForConditionalGeneration(config)
    model.freeze_encoder()
    model.config.use_cache = False
    args = transformers.TrainingArguments(
        bf16=True, gradient_checkpointing=True, optim="adamw_torch", per_device_train_batch_size=16, **shared
    )
else:
    model = transformers.AutoModelForImageClassification.from_config(config)
    args = transformers.TrainingArguments(
        tf32=True, optim="sgd", optim_args="momentum=0.9", max_grad_norm=0.0, per_device_train_batch_size=32, **shared
    )
transformers.Trainer(model=model, args=args, train_dataset=Rows()).train()
