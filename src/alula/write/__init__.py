"""Runs to text, and byte edits to the user's own files."""
