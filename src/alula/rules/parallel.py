"""Megatron parallel sizes against the processes and the model."""
