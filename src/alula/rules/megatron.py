"""Megatron arguments of training that need no look at the parallel sizes."""
