"""Tools that show GPUs or pick the free ones, and measure no program."""

from __future__ import annotations

from benchmarks.environments import Tool


class Gpustat(Tool):
    """gpustat: a line a GPU, or all of it as JSON."""

    name = 'gpustat'
    requirement = 'gpustat'
    distribution = 'gpustat'
    program = 'gpustat'


class Nvgpu(Tool):
    """nvgpu 0.9.0: a table of the GPUs, and a list of the free ones; it needs a pynvml of its time."""

    name = 'nvgpu 0.9.0'
    requirement = 'nvgpu==0.9.0'
    also = ('pynvml==11.4.1',)
    distribution = 'nvgpu'
    program = 'nvgpu'
