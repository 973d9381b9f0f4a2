"""Ray: role groups of Megatron-Ray and device groups of the older path."""
