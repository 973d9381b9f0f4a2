"""Pipeline stages on Megatron: uneven splits, virtual stages and layout strings."""
