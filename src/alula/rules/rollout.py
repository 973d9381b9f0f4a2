"""Rollout engines: vLLM beside the trainer, the rollout server, and what their flags need."""
