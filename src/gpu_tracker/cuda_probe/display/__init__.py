"""A :class:`~gpu_tracker.cuda_probe.report.CudaReport` as text for people and as JSON for programs; pure."""
