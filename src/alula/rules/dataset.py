"""Rows of the run's own data."""
