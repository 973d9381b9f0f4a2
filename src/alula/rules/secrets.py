"""Secrets written into scripts and configs."""
