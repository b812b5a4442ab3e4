#!/bin/bash
trl dpo --model_name_or_path Qwen/Qwen2.5-0.5B --dataset_name me/preferences \
    --per_device_train_batch_size 4 --learning_rate 5e-7 --no_remove_unused_columns
