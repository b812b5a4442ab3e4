# A text classifier, as courses train one.
from transformers import AutoModelForSequenceClassification, Trainer, TrainingArguments

model = AutoModelForSequenceClassification.from_pretrained("google-bert/bert-base-uncased", num_labels=3)
args = TrainingArguments(output_dir="out", per_device_train_batch_size=32, learning_rate=2e-5, fp16=True)
trainer = Trainer(model, args, train_dataset=tokenized["train"])
trainer.train()
