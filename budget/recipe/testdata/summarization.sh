python examples/pytorch/summarization/run_summarization.py \
    --model_name_or_path google-t5/t5-base \
    --do_train \
    --source_prefix "summarize: " \
    --per_device_train_batch_size=8 \
    --max_source_length 512 \
    --max_target_length 128 \
    --output_dir out
