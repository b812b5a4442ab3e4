import numpy as np
from datasets import load_dataset
from transformers import (AutoModelForSequenceClassification, AutoTokenizer, DataCollatorWithPadding, Trainer, TrainingArguments)

checkpoint = "microsoft/deberta-v3-base"
tokenizer = AutoTokenizer.from_pretrained(checkpoint)
model = AutoModelForSequenceClassification.from_pretrained(checkpoint, num_labels=5)

ds = load_dataset("csv", data_files={"train": "essays.csv"})["train"]
ds = ds.map(lambda b: tokenizer(b["text"], truncation=True, max_length=1024), batched=True, remove_columns=["text"])


def compute_metrics(p):
    return {"accuracy": (np.argmax(p.predictions, axis=1) == p.label_ids).mean()}


args = TrainingArguments(
    output_dir="deberta-essays",
    learning_rate=2e-5,
    per_device_train_batch_size=8,
    per_device_eval_batch_size=16,
    num_train_epochs=4,
    weight_decay=0.01,
    fp16=True,
    eval_strategy="epoch",
    save_strategy="epoch",
    load_best_model_at_end=True,
    lr_scheduler_type="cosine",
    optim="adamw_torch",
    report_to="none",
)
trainer = Trainer(model=model, args=args, train_dataset=ds, eval_dataset=ds, processing_class=tokenizer,
                  data_collator=DataCollatorWithPadding(tokenizer), compute_metrics=compute_metrics)
trainer.train()
