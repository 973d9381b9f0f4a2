"""Plugin files, read as syntax."""
