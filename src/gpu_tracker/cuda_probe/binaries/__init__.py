"""What the CUDA code in executables and libraries says of its kernels, and which kernel an address is."""
