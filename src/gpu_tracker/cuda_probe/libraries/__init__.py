"""The files in which CUDA's functions are called: those that processes have loaded, and those that they may load."""
