"""What is true of the world, as data, with loaders that read only what is asked for."""
