"""A probe's report, and its JSON: the records of :mod:`gpu_tracker.cuda_usage` with memory in bytes, and more."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

from gpu_tracker.cuda_usage import CUDAKernel, CUDAProcess, base_units

if TYPE_CHECKING:
    from gpu_tracker.cuda_usage import CUDAGpu

_IDENTITY = ('pid', 'run', 'name', 'symbol', 'file', 'address')
"""What comes first in the JSON of a process, and of a kernel."""


@dataclass(frozen=True, slots=True)
class KernelVariant:
    """A kernel as it was compiled for one generation of GPUs.

    :ivar sm: The SM version: 90 is compute capability 9.0.
    :ivar feature: What follows it: ``a`` in sm_90a, ``f`` in sm_100f, mostly nothing.
    :ivar registers: Registers of a thread.
    :ivar code_size_bytes: Bytes of its machine code.
    :ivar static_shared_bytes: Bytes of shared memory of a block that are fixed when it is compiled.
    :ivar constant_bytes: Bytes of constant memory, its parameters included.
    """

    sm: int
    feature: str
    registers: int | None
    code_size_bytes: int | None
    static_shared_bytes: int | None
    constant_bytes: int | None


@dataclass(frozen=True, slots=True)
class KernelReport(CUDAKernel):
    """The launches of one kernel by one process, with what is known of its code.

    :ivar symbol: Its mangled name.
    :ivar address: Where the program has the kernel's host function, or its handle.
    :ivar variants: As it was compiled, by SM version; empty where its file is not readable.
    """

    symbol: str | None
    address: int
    variants: tuple[KernelVariant, ...] = ()


@dataclass(frozen=True, slots=True)
class ProcessReport(CUDAProcess):
    """What one program run did with CUDA while it was probed.

    :ivar run: Its own number in all reports of one probe: a process that becomes another program has another one then.
    :ivar kernels: By kernel, the most launched first; of many those with the most launches and those with the most
        time, see ``kernels_told`` in :class:`gpu_tracker.cuda_probe.limits.Limits`.
    """

    run: int
    kernels: tuple[KernelReport, ...]


@dataclass(frozen=True, slots=True)
class CudaReport:
    """All that a probe has seen.

    :ivar seconds: How long the calls were observed.
    :ivar engine: How it was attached: ``uprobe.multi`` or ``perf``.
    :ivar processes: By program run, in the order of their first CUDA calls.
    :ivar devices: The GPUs of this machine.
    :ivar events: Events of which times and spans were made.
    :ivar events_lost: Events that found no room: times and spans lack them. Counts and bytes do not.
    :ivar notes: What is missing or inexact, a sentence each.
    """

    seconds: float
    engine: str
    processes: tuple[ProcessReport, ...]
    devices: tuple[CUDAGpu, ...]
    events: int
    events_lost: int
    notes: tuple[str, ...] = ()


def report_json(report: CudaReport, *, indent: int | None = 2) -> str:
    """Return a JSON object, without a line break at its end; with an ``indent`` of None it is one line.

    Its keys are the fields of the report, those of memory with ``_bytes`` at their end; values are unrounded, and null
    is what is not known.
    """
    return json.dumps(report, default=_plain, indent=indent)


def problem_json(problem: str, *, indent: int | None = 2) -> str:
    """Return what stands in place of a report where nothing could be probed: an object with one key, ``problem``."""
    return json.dumps({'problem': problem}, indent=indent)


def _plain(record: object) -> dict[str, object]:
    found = base_units(record)
    return {name: found[name] for name in _IDENTITY if name in found} | found
