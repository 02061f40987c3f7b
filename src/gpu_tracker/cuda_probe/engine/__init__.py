"""The probe's engine: the BPF object in the kernel, where it is attached, and what it has counted and told."""
