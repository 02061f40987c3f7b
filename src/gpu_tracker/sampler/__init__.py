"""The sampling subprocess: :mod:`~gpu_tracker.sampler.spawn` starts it, :mod:`~gpu_tracker.sampler.process` is what it runs."""
