"""GPUs, machines that have them, and what shows them."""
