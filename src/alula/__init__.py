"""alula: plan, build, check and explain advanced ms-swift runs before they cost GPU hours."""

__version__ = "0.1.0"
