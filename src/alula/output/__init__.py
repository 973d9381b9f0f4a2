"""One file a format: text, JSON, SARIF, GitHub annotations."""
