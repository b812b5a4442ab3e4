# sixteen sequences at once, adapters on two halves of a 7B
NPROC_PER_NODE=4 \
megatron sft \
    --model Qwen/Qwen2.5-7B-Instruct \
    --tuner_type lora --lora_rank 16 \
    --target_modules q_proj v_proj \
    --tensor_model_parallel_size 2 --sequence_parallel true \
    --micro_batch_size 8 --global_batch_size 32 \
    --recompute_granularity full --recompute_method uniform --recompute_num_layers 1 \
    --max_length 2048 --save out
