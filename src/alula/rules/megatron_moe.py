"""Mixture of experts on Megatron: dispatchers, load balancing, LoRA over experts."""
