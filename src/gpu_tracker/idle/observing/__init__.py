"""Polling the machine: who uses GPUs, what drivers report, who works at terminals."""
