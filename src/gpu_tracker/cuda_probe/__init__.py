"""CUDA calls of programs, seen from outside with eBPF: the programs are neither changed nor restarted."""
