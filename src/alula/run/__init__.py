"""The nouns: what one experiment launches, as it was written. Frozen dataclasses, no I/O, stdlib only."""
