"""Executables, libraries and the CUDA code in them: their kernels, and the kernel at an address."""
