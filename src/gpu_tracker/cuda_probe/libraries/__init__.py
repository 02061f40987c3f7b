"""Which files CUDA's functions are called in: those that processes have loaded, and those that they may load."""
