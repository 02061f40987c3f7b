"""Polling the machine: who uses GPUs, what the driver reports, who works at terminals."""
