"""Multi-turn schedulers and environments, one job at a time."""
