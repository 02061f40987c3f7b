"""Runs programs on GPUs while nobody uses them, and gets out of the way when somebody does."""
