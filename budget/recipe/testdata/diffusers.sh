export MODEL_NAME="stabilityai/stable-diffusion-xl-base-1.0"

accelerate launch train_dreambooth_lora_sdxl.py \
  --pretrained_model_name_or_path=$MODEL_NAME \
  --instance_data_dir="pictures" \
  --mixed_precision="fp16" \
  --instance_prompt="a photo of a kettle" \
  --resolution=768 \
  --train_batch_size=2 \
  --gradient_accumulation_steps=4 \
  --gradient_checkpointing \
  --use_8bit_adam \
  --learning_rate=1e-4
