"""The model: figures by process, GPU and window of time, made of the events of CUDA calls without clock and files.

Launches gather into spans by stream (``streams``), spans into the activity of a process on a GPU and on all GPUs
(``activity``), and ``statistics`` makes a window of that on request. ``window`` also adds up the windows of a run.
"""
