# pip install trl
# Full fine-tuning of Qwen2.5-1.5B on one 80 GB card
from datasets import load_dataset
from transformers import AutoTokenizer
from trl import SFTConfig, SFTTrainer

model_name = "Qwen/Qwen2.5-1.5B"
dataset = load_dataset("trl-lib/Capybara", split="train")
tokenizer = AutoTokenizer.from_pretrained(model_name)

training_args = SFTConfig(
    output_dir="Qwen2.5-1.5B-SFT",
    num_train_epochs=1,
    per_device_train_batch_size=4,
    gradient_accumulation_steps=4,
    gradient_checkpointing=True,
    gradient_checkpointing_kwargs={"use_reentrant": False},
    learning_rate=2.0e-5,
    lr_scheduler_type="cosine",
    max_length=2048,
    bf16=True,
    optim="adamw_torch_fused",
    logging_steps=10,
    save_steps=500,
    report_to="none",
)

trainer = SFTTrainer(
    model=model_name,
    args=training_args,
    train_dataset=dataset,
    processing_class=tokenizer,
)
trainer.train()
trainer.save_model()
