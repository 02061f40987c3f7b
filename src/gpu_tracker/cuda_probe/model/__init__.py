"""From the events of CUDA calls to figures by process, GPU and window of time: no clock, no files, times come in.

Launches gather into spans by stream (``streams``), spans into what a process does with a GPU (``device_activity``) and
altogether (``process_activity``), and ``statistics`` makes a window of that when it is asked. ``accumulated`` adds up
the windows of a whole run.
"""
