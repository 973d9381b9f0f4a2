"""Which optional backends are here, and which of them a run needs. Nothing heavy is imported, no GPU is touched."""
