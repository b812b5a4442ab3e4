export CUDA_VISIBLE_DEVICES=0,1
NPROC_PER_NODE=2 \
swift sft \
    --model Qwen/Qwen2.5-7B-Instruct \
    --train_type lora \
    --lora_rank 16 \
    --target_modules all-linear \
    --torch_dtype bfloat16 \
    --max_length 4096 \
    --per_device_train_batch_size 2 \
    --deepspeed zero2
