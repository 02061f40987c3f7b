"""Processes that claim GPUs."""
