"""Algorithms: what each `rlhf_type` refuses, ignores, or trains otherwise than asked."""
