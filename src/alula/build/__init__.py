"""From an intent to a Run that ms-swift accepts. Nothing is executed."""
