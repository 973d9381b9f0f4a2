"""Versions: what a 3.x script means under 4.x, and pins that do not fit."""
