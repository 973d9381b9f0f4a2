"""Teachers: distillation by GKD and OPD-RL, from a model or a server."""
