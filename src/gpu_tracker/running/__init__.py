"""One tracked run: its options, its command, its sampler, and how both are ended."""
