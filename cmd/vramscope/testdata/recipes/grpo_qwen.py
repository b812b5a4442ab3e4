import re

from datasets import load_dataset
from peft import LoraConfig
from transformers import AutoTokenizer
from trl import GRPOConfig, GRPOTrainer

MODEL_ID = "Qwen/Qwen2.5-1.5B-Instruct"
MAX_PROMPT_LENGTH = 512
MAX_COMPLETION_LENGTH = 512

tokenizer = AutoTokenizer.from_pretrained(MODEL_ID)
dataset = load_dataset("openai/gsm8k", "main", split="train")
dataset = dataset.map(lambda x: {"prompt": [{"role": "user", "content": x["question"]}]})
dataset = dataset.filter(
    lambda x: len(tokenizer.apply_chat_template(x["prompt"], tokenize=True, add_generation_prompt=True, return_dict=False))
    <= MAX_PROMPT_LENGTH)


def correctness_reward(completions, answer, **kwargs):
    found = [re.search(r"####\s*(-?\d+)", c[0]["content"]) for c in completions]
    return [2.0 if f and f.group(1) == a.split("####")[-1].strip() else 0.0 for f, a in zip(found, answer)]


training_args = GRPOConfig(
    output_dir="qwen-grpo-gsm8k",
    learning_rate=5e-6,
    adam_beta1=0.9,
    adam_beta2=0.99,
    weight_decay=0.1,
    lr_scheduler_type="cosine",
    bf16=True,
    model_init_kwargs={"dtype": "bfloat16"},
    per_device_train_batch_size=8,
    gradient_accumulation_steps=4,
    num_generations=8,
    max_completion_length=MAX_COMPLETION_LENGTH,
    beta=0.0,
    max_grad_norm=0.1,
    num_train_epochs=1,
    logging_steps=1,
    save_steps=100,
    report_to="none",
)
trainer = GRPOTrainer(
    model=MODEL_ID,
    reward_funcs=[correctness_reward],
    args=training_args,
    train_dataset=dataset,
    peft_config=LoraConfig(r=16, lora_alpha=64, target_modules=["q_proj", "k_proj", "v_proj", "o_proj", "up_proj", "down_proj", "gate_proj"],
                           task_type="CAUSAL_LM", lora_dropout=0.05),
)
trainer.train()
