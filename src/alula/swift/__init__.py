"""What ms-swift makes of a Job: its argument parser, launch, derived values and batch arithmetic."""
