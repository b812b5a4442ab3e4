# torchrun --nproc_per_node 8 fsdp_clm.py
from itertools import chain

import torch
from datasets import load_dataset
from transformers import AutoModelForCausalLM, AutoTokenizer, Trainer, TrainingArguments, default_data_collator

MODEL = "Qwen/Qwen3-4B-Base"
BLOCK_SIZE = 2048

tokenizer = AutoTokenizer.from_pretrained(MODEL)
model = AutoModelForCausalLM.from_pretrained(MODEL, torch_dtype=torch.float32)

raw = load_dataset("text", data_files={"train": "corpus.txt"})


def tokenize(batch):
    return tokenizer(batch["text"])


def group_texts(examples):
    concatenated = {k: list(chain(*examples[k])) for k in examples.keys()}
    total = len(concatenated["input_ids"]) // BLOCK_SIZE * BLOCK_SIZE
    result = {k: [t[i:i + BLOCK_SIZE] for i in range(0, total, BLOCK_SIZE)] for k, t in concatenated.items()}
    result["labels"] = result["input_ids"].copy()
    return result


train = raw["train"].map(tokenize, batched=True, remove_columns=["text"]).map(group_texts, batched=True)

args = TrainingArguments(
    output_dir="qwen3-4b-cpt",
    per_device_train_batch_size=2,
    gradient_accumulation_steps=8,
    learning_rate=1e-5,
    weight_decay=0.1,
    adam_beta2=0.95,
    bf16=True,
    fsdp="full_shard auto_wrap",
    fsdp_config={
        "transformer_layer_cls_to_wrap": ["Qwen3DecoderLayer"],
        "activation_checkpointing": True,
        "backward_prefetch": "backward_pre",
        "limit_all_gathers": True,
        "use_orig_params": True,
    },
    num_train_epochs=1,
    logging_steps=1,
    save_strategy="no",
    report_to="none",
)
trainer = Trainer(model=model, args=args, train_dataset=train, processing_class=tokenizer, data_collator=default_data_collator)
trainer.train()
