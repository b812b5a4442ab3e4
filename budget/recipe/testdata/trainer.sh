#!/bin/bash
MODEL=${1:-meta-llama/Llama-3.2-3B}
accelerate launch --num_processes 4 --mixed_precision bf16 --use_deepspeed \
    --deepspeed_config_file configs/stage3_no_offloading.json \
    sft.py --model_name_or_path "$MODEL" --dtype bfloat16 --use_flash_attn \
    --max_seq_length 2048 --per_device_train_batch_size 1 --gradient_accumulation_steps 4 \
    --gradient_checkpointing --reward_model_path me/judge --learning_rate 5e-06
