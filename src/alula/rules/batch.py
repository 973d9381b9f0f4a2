"""Batch arithmetic of GRPO and GKD, for HF, Megatron and Ray."""
