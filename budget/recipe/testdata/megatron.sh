#!/bin/bash
export CUDA_DEVICE_MAX_CONNECTIONS=1
GPUS_PER_NODE=8
NUM_NODES=${NNODES:-2}
WORLD_SIZE=$(($GPUS_PER_NODE*$NUM_NODES))
CHECKPOINT_PATH=$1
DISTRIBUTED_ARGS=(
    --nproc_per_node $GPUS_PER_NODE
    --nnodes $NUM_NODES
    --master_addr localhost
)
GPT_MODEL_ARGS=(
    --num-layers 32 --hidden-size 4096
    --ffn-hidden-size 14336
    --num-attention-heads 32 --group-query-attention --num-query-groups 8
    --seq-length 8192
    --max-position-embeddings 8192 --swiglu --normalization RMSNorm --disable-bias-linear --position-embedding-type rope
    --untie-embeddings-and-output-weights --vocab-size 128256
)
TRAINING_ARGS=(
    --micro-batch-size 1
    --global-batch-size 128
    --bf16 --use-distributed-optimizer
    --recompute-activations
)
torchrun ${DISTRIBUTED_ARGS[@]} pretrain_gpt.py ${GPT_MODEL_ARGS[@]} ${TRAINING_ARGS[@]} --tensor-model-parallel-size 4 \
   --pipeline-model-parallel-size 2 --sequence-parallel
