NGPU=8 ./run_train.sh --module llama3 --config llama3_8b --training.seq_len 4096 \
    --parallelism.tensor_parallel_degree 2 --parallelism.data_parallel_shard_degree 4 --compile.enable
