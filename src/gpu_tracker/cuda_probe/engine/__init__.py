"""The engine of the probe: the BPF object in the kernel, where it is attached, its totals, events and notices."""
