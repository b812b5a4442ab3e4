# Two sequences of each preference, and the model as it was beside.
read -r -d '' training_commands <<EOF
openrlhf.cli.train_dpo \
   --save_path ./checkpoint/llama3-8b-dpo \
   --train_batch_size 256 \
   --micro_train_batch_size 1 \
   --pretrain OpenRLHF/Llama-3-8b-sft-mixture \
   --bf16 \
   --max_len 8192 \
   --zero_stage 3 \
   --beta 0.1 \
   --learning_rate 5e-7 \
   --dataset OpenRLHF/preference_dataset_mixture2_and_safe_pku \
   --chosen_key chosen \
   --rejected_key rejected \
   --attn_implementation flash_attention_2 \
   --gradient_checkpointing
EOF
deepspeed --num_gpus 8 --module $training_commands
