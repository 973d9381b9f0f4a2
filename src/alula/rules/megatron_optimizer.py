"""Optimizer, schedule and number format on Megatron."""
