"""A probe's report as the plain data of a section: sums by group, and the programs one by one. Pure but for maxima."""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING

from gpu_tracker.printable import printable

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from gpu_tracker.cuda_probe.report import (
        CudaReport,
        DeviceReport,
        DeviceTags,
        FailureReport,
        KernelReport,
        ProcessReport,
    )

_MOST_PROCESSES = 64
_MOST_KERNELS = 10
"""Of a program: those that it launched most often."""
_MOST_SLOW_KERNELS = 5
"""Of a program: those with the most time, beside these."""
_MOST_FAILURES = 20
_MOST_DEVICES = 16
_MOST_NOTES = 30
_LONGEST = 200
"""Characters of a name, a command line or a path."""
_LONGEST_NOTE = 600


class SectionFigures:
    """Makes each report into a section; remembers the most memory of several programs together.

    :param main: The process that is tracked itself; all others are its descendants.
    """

    def __init__(self, main: int) -> None:
        self._main = main
        self._most = {'main': 0, 'descendants': 0, 'combined': 0}

    def of(self, report: CudaReport) -> dict[str, object]:
        """Return the section."""
        processes = report.processes
        main = [process for process in processes if process.pid == self._main]
        descendants = [process for process in processes if process.pid != self._main]
        told = _most_launched(processes)
        notes = [_cut(note, _LONGEST_NOTE) for note in report.notes[:_MOST_NOTES]]
        if len(told) < len(processes):
            notes.append(
                f'Of {len(processes)} programs the {len(told)} with the most launches are told one by one; '
                'the sums have all.'
            )
        return {
            'engine': report.engine,
            'seconds': report.seconds,
            'main': self._group('main', main),
            'descendants': self._group('descendants', descendants),
            'combined': self._group('combined', processes),
            'processes': [_process(process) for process in told],
            'gpus': _gpus(report.devices, told),
            'notes': notes,
        }

    def _group(self, name: str, processes: Sequence[ProcessReport]) -> dict[str, object]:
        current = sum(process.memory_current_bytes for process in processes)
        single = max((process.memory_max_bytes for process in processes), default=0)
        self._most[name] = max(self._most[name], current, single)
        return {
            'processes': len(processes),
            'launches': sum(process.launches for process in processes),
            'synchronisations': sum(process.synchronisations for process in processes),
            'synchronising_seconds': sum((process.synchronising_seconds for process in processes), 0.0),
            'launch_to_sync_seconds': _sum(process.launch_to_sync_seconds for process in processes),
            'allocations': sum(process.allocations for process in processes),
            'frees': sum(process.frees for process in processes),
            'allocated_bytes': sum(process.allocated_bytes for process in processes),
            'freed_bytes': sum(process.freed_bytes for process in processes),
            'memory_current_bytes': current,
            'memory_max_bytes': self._most[name],
            'memory_leaked_bytes': _sum_of_counts(process.memory_leaked_bytes for process in processes),
            'failed_calls': sum(failure.count for process in processes for failure in process.failures),
        }


def _sum(values: Iterable[float | None]) -> float | None:
    """Return the sum; part of a sum would be taken for the whole, so None where one is not known."""
    total = 0.0
    for value in values:
        if value is None:
            return None
        total += value
    return total


def _sum_of_counts(values: Iterable[int | None]) -> int | None:
    total = _sum(values)
    return None if total is None else int(total)


def _most_launched(processes: Sequence[ProcessReport]) -> list[ProcessReport]:
    """Return the programs that are told one by one, in the order that they have."""
    if len(processes) <= _MOST_PROCESSES:
        return list(processes)
    by_launches = sorted(range(len(processes)), key=lambda place: processes[place].launches, reverse=True)
    return [processes[place] for place in sorted(by_launches[:_MOST_PROCESSES])]


def _process(process: ProcessReport) -> dict[str, object]:
    return _fields(process, without=('run',)) | {
        'name': _cut(process.name),
        'command': None if process.command is None else _cut(process.command),
        'devices': [_fields(device) for device in process.devices[:_MOST_DEVICES]],
        'kernels': [_kernel(kernel) for kernel in _foremost(process.kernels)],
        'failures': [_fields(failure) for failure in process.failures[:_MOST_FAILURES]],
    }


def _fields(
    told: ProcessReport | DeviceReport | DeviceTags | FailureReport, without: Collection[str] = ()
) -> dict[str, object]:
    """Return a part of a report as a dict, what is inside of it as it is."""
    return {field.name: getattr(told, field.name) for field in fields(told) if field.name not in without}


def _foremost(kernels: Sequence[KernelReport]) -> list[KernelReport]:
    """Return the kernels that were launched most often, then those with the most time that are not among them."""
    often = sorted(kernels, key=lambda kernel: kernel.launches, reverse=True)
    others = sorted(often[_MOST_KERNELS:], key=lambda kernel: kernel.span_seconds or 0.0, reverse=True)
    return often[:_MOST_KERNELS] + [kernel for kernel in others[:_MOST_SLOW_KERNELS] if kernel.span_seconds]


def _kernel(kernel: KernelReport) -> dict[str, object]:
    return {
        'name': _cut(kernel.name),
        'file': None if kernel.file is None else _cut(kernel.file),
        'launches': kernel.launches,
        'mean_threads': kernel.mean_threads,
        'span_seconds': kernel.span_seconds,
    }


def _gpus(devices: Iterable[DeviceTags], processes: Iterable[ProcessReport]) -> list[dict[str, object]]:
    """Return the GPUs that the programs used."""
    used = {device.uuid for process in processes for device in process.devices}
    return [_fields(device) for device in devices if device.uuid in used]


def _cut(text: str, longest: int = _LONGEST) -> str:
    """Return a text that may be printed: programs write their own names."""
    text = printable(text)
    return text if len(text) <= longest else f'{text[: longest - 1]}…'
