#!/bin/bash
accelerate launch --num_processes 8 trl/scripts/grpo.py --model_name_or_path Qwen/Qwen2.5-1.5B --dtype bfloat16 \
    --per_device_train_batch_size 8 --num_generations 8 --max_completion_length 1024 --max_prompt_length 256 --beta 0.0
