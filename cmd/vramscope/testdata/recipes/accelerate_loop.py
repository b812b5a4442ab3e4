# accelerate launch --num_processes 2 --multi_gpu --mixed_precision bf16 accelerate_loop.py
import torch
from accelerate import Accelerator
from datasets import load_dataset
from torch.utils.data import DataLoader
from transformers import AutoModelForSeq2SeqLM, AutoTokenizer, DataCollatorForSeq2Seq, get_linear_schedule_with_warmup

model_name = "google/flan-t5-base"
max_source_length, max_target_length = 512, 128
batch_size, num_epochs = 16, 3


def main():
    accelerator = Accelerator(gradient_accumulation_steps=2)
    tokenizer = AutoTokenizer.from_pretrained(model_name)
    model = AutoModelForSeq2SeqLM.from_pretrained(model_name)
    raw = load_dataset("json", data_files="sum.jsonl", split="train")

    def preprocess(examples):
        inputs = tokenizer(examples["document"], max_length=max_source_length, padding="max_length", truncation=True)
        labels = tokenizer(text_target=examples["summary"], max_length=max_target_length, padding="max_length", truncation=True)
        inputs["labels"] = labels["input_ids"]
        return inputs

    with accelerator.main_process_first():
        train = raw.map(preprocess, batched=True, remove_columns=raw.column_names)
    loader = DataLoader(train, shuffle=True, batch_size=batch_size, collate_fn=DataCollatorForSeq2Seq(tokenizer, model=model))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    lr_scheduler = get_linear_schedule_with_warmup(optimizer, 0, len(loader) * num_epochs)
    model, optimizer, loader, lr_scheduler = accelerator.prepare(model, optimizer, loader, lr_scheduler)

    for epoch in range(num_epochs):
        model.train()
        for batch in loader:
            with accelerator.accumulate(model):
                outputs = model(**batch)
                loss = outputs.loss
                accelerator.backward(loss)
                accelerator.clip_grad_norm_(model.parameters(), 1.0)
                optimizer.step()
                lr_scheduler.step()
                optimizer.zero_grad()


if __name__ == "__main__":
    main()
