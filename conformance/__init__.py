"""The real ms-swift as judge: what it accepts, what it refuses and what it computes decides what alula must say."""
