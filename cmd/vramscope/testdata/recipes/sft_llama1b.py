# accelerate launch --config_file zero2_offload.yaml sft_llama1b.py
import torch
from datasets import load_dataset
from transformers import AutoModelForCausalLM, AutoTokenizer
from trl import SFTConfig, SFTTrainer

model_id = "meta-llama/Llama-3.2-1B"
tokenizer = AutoTokenizer.from_pretrained(model_id)
model = AutoModelForCausalLM.from_pretrained(model_id, dtype=torch.bfloat16, use_cache=False)

dataset = load_dataset("json", data_files="chat.jsonl", split="train")

config = SFTConfig(
    output_dir="llama1b-chat",
    per_device_train_batch_size=4,
    gradient_accumulation_steps=2,
    max_length=2048,
    packing=False,
    gradient_checkpointing=True,
    bf16=True,
    learning_rate=1e-5,
    max_grad_norm=1.0,
    num_train_epochs=2,
    logging_steps=1,
    report_to="none",
)
SFTTrainer(model=model, args=config, train_dataset=dataset, processing_class=tokenizer).train()
