"""A trainer and the servers it talks to, checked against each other."""
