# accelerate launch --config_file fsdp2.yaml sft_llama8b.py
from datasets import load_dataset
from trl import SFTConfig, SFTTrainer

dataset = load_dataset("HuggingFaceH4/ultrachat_200k", split="train_sft")

args = SFTConfig(
    output_dir="llama-3.1-8b-ultrachat",
    model_init_kwargs={"dtype": "bfloat16", "attn_implementation": "sdpa"},
    max_length=4096,
    per_device_train_batch_size=1,
    gradient_accumulation_steps=4,
    gradient_checkpointing=False,
    learning_rate=1e-5,
    num_train_epochs=1,
    bf16=True,
    logging_steps=5,
    save_strategy="epoch",
    report_to="none",
)
trainer = SFTTrainer(model="meta-llama/Llama-3.1-8B", args=args, train_dataset=dataset)
trainer.train()
