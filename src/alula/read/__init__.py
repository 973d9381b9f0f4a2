"""Readers: shell, YAML and argument lists to a Run. Nothing of the user's is executed."""
