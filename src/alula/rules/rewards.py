"""Reward functions and reward models: names, weights, columns."""
