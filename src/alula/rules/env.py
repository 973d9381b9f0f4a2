"""Environment variables: misspelt, without effect, or harmful together."""
