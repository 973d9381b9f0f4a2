"""Launch: processes, devices and nodes, as torchrun and ms-swift place them."""
