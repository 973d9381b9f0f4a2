"""Exports: merging, quantisation, conversion between Hugging Face and Megatron checkpoints."""
