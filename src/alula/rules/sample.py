"""`swift sample`."""
