#!/usr/bin/env bash
# The other seven GPUs train.
export CUDA_VISIBLE_DEVICES=0,1,2,3,4,5,6
export NPROC_PER_NODE=7

swift rlhf \
    --rlhf_type grpo \
    --model Qwen/Qwen2.5-7B-Instruct \
    --train_type lora \
    --dataset AI-MO/NuminaMath-TIR#5000 \
    --reward_funcs accuracy format \
    --use_vllm true \
    --vllm_mode server \
    --vllm_server_host 127.0.0.1 \
    --vllm_server_port 8000 \
    --max_length 2048 \
    --max_completion_length 2048 \
    --per_device_train_batch_size 1 \
    --num_generations 8 \
    --deepspeed zero2 \
    --output_dir output
