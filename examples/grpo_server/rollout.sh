#!/usr/bin/env bash
# GPU 7 samples; the trainer sends it new weights after every step.
CUDA_VISIBLE_DEVICES=7 \
swift rollout \
    --model Qwen/Qwen2.5-7B-Instruct \
    --vllm_max_model_len 4096 \
    --port 8000
