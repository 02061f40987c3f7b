"""The GPUs of a machine: what is on them, which are free, and who has claimed them."""
