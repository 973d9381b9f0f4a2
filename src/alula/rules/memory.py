"""Memory traps that are certain without an estimate."""
