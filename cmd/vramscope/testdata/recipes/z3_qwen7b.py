# deepspeed --num_gpus 8 z3_qwen7b.py
from datasets import load_dataset
from transformers import (AutoModelForCausalLM, AutoTokenizer, DataCollatorForSeq2Seq, Trainer, TrainingArguments)

model_path = "Qwen/Qwen2.5-7B-Instruct"
cutoff_len = 2048

training_args = TrainingArguments(
    output_dir="./qwen7b-alpaca",
    deepspeed="ds_z3.json",
    per_device_train_batch_size=2,
    gradient_accumulation_steps=4,
    gradient_checkpointing=True,
    bf16=True,
    learning_rate=1e-5,
    num_train_epochs=3,
    lr_scheduler_type="constant_with_warmup",
    warmup_steps=100,
    logging_steps=10,
    save_strategy="epoch",
    report_to="none",
)

tokenizer = AutoTokenizer.from_pretrained(model_path)
model = AutoModelForCausalLM.from_pretrained(model_path, torch_dtype="auto")
model.config.use_cache = False


def preprocess(ex):
    prompt = f"### Instruction:\n{ex['instruction']}\n\n### Response:\n"
    p = tokenizer(prompt, add_special_tokens=False)["input_ids"]
    a = tokenizer(ex["output"], add_special_tokens=False)["input_ids"] + [tokenizer.eos_token_id]
    ids = (p + a)[:cutoff_len]
    labels = ([-100] * len(p) + a)[:cutoff_len]
    return {"input_ids": ids, "labels": labels, "attention_mask": [1] * len(ids)}


data = load_dataset("json", data_files="alpaca.json", split="train")
data = data.map(preprocess, remove_columns=data.column_names)

trainer = Trainer(model=model, args=training_args, train_dataset=data,
                  data_collator=DataCollatorForSeq2Seq(tokenizer, padding=True))
trainer.train()
