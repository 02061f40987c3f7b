"""NVIDIA GPUs through NVML, with its quirks; nothing outside this folder imports pynvml.

Facts without another source are from nvml.h.
"""
