"""Views of a :class:`~gpu_tracker.cuda_probe.report.CudaReport` as text."""
