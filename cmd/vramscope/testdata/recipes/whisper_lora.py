# Fine-tune Whisper small with LoRA on Common Voice Hindi
import torch
from peft import LoraConfig, get_peft_model
from torch.utils.data import Dataset
from transformers import Seq2SeqTrainer, Seq2SeqTrainingArguments, WhisperForConditionalGeneration

MAX_LABEL_LENGTH = 225


class CommonVoice(Dataset):
    """log-Mel spectrograms of 30 seconds, labels padded to MAX_LABEL_LENGTH"""

    def __len__(self):
        return 4096

    def __getitem__(self, i):
        return {"input_features": torch.zeros(80, 3000), "labels": torch.zeros(MAX_LABEL_LENGTH, dtype=torch.long)}


model = WhisperForConditionalGeneration.from_pretrained("openai/whisper-small")
model.config.use_cache = False
config = LoraConfig(r=32, lora_alpha=64, target_modules=["q_proj", "v_proj"], lora_dropout=0.05, bias="none")
model = get_peft_model(model, config)
model.print_trainable_parameters()

training_args = Seq2SeqTrainingArguments(
    output_dir="whisper-small-hi-lora",
    per_device_train_batch_size=16,
    gradient_accumulation_steps=1,
    learning_rate=1e-3,
    warmup_steps=50,
    num_train_epochs=3,
    fp16=True,
    generation_max_length=MAX_LABEL_LENGTH,
    logging_steps=25,
    remove_unused_columns=False,
    label_names=["labels"],
    save_strategy="no",
    report_to="none",
)
trainer = Seq2SeqTrainer(model=model, args=training_args, train_dataset=CommonVoice())
trainer.train()
