"""Activation recomputation on Megatron."""
