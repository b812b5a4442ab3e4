# accelerate launch --multi_gpu --num_processes 2 --mixed_precision bf16 reward_llama.py
from datasets import load_dataset
from peft import LoraConfig, TaskType
from transformers import AutoModelForSequenceClassification, AutoTokenizer
from trl import RewardConfig, RewardTrainer

model_name = "meta-llama/Llama-3.2-1B-Instruct"
tokenizer = AutoTokenizer.from_pretrained(model_name)
model = AutoModelForSequenceClassification.from_pretrained(model_name, num_labels=1, dtype="bfloat16")
model.config.pad_token_id = tokenizer.pad_token_id

training_args = RewardConfig(
    output_dir="llama-1b-reward",
    per_device_train_batch_size=8,
    gradient_accumulation_steps=1,
    num_train_epochs=1,
    gradient_checkpointing=True,
    learning_rate=1e-4,
    bf16=True,
    max_length=1024,
    center_rewards_coefficient=0.01,
    logging_steps=10,
    report_to="none",
)
peft_config = LoraConfig(task_type=TaskType.SEQ_CLS, r=16, lora_alpha=32, lora_dropout=0.1, target_modules="all-linear",
                         modules_to_save=["score"])

trainer = RewardTrainer(
    model=model,
    args=training_args,
    processing_class=tokenizer,
    train_dataset=load_dataset("trl-lib/ultrafeedback_binarized", split="train"),
    peft_config=peft_config,
)
trainer.train()
