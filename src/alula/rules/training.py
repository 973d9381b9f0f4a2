"""Training arguments that do not depend on the algorithm."""
