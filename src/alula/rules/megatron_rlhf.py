"""Reinforcement learning on Megatron."""
