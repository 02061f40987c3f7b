"""The probe as a section of a tracked run, which the sampler reads once a second.

See ``gpu_tracker.resources.threaded`` for what a source is. This one has the fields of
:class:`.CUDAUsage` in base units, see :func:`.base_units`. Texts and lists
are cut, so that it always fits into the sampler's store.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from gpu_tracker.errors import GpuTrackerError
from gpu_tracker.result.cuda_usage import CUDAFigures, CUDAKernel, CUDAProcess, base_units
from gpu_tracker.system.terminal_text import printable

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from gpu_tracker.cuda_probe.cuda_report import CudaReport, KernelReport, ProcessReport
    from gpu_tracker.cuda_probe.probe_session import Probe
    from gpu_tracker.resources.threaded import Target

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
_ADDED = ('launches', 'graph_launches', 'synchronisations', 'allocations', 'frees', 'allocated', 'freed')
"""The figures of a group that are the sums of its processes'."""


class CudaSection:
    """The CUDA calls of one tracked process and its descendants.

    :param probe: Follows the processes, and collects.
    :param main: The tracked process.
    """

    def __init__(self, probe: Probe, main: int) -> None:
        self._probe = probe
        self._figures = SectionFigures(main)

    def read(self, members: frozenset[int]) -> dict[str, object]:  # noqa: ARG002 - the kernel follows them itself
        """Return all that is known so far, of the processes that were ever tracked."""
        return self._figures.section(self._probe.report())

    def close(self) -> None:
        """Detach from all programs."""
        self._probe.close()


def open_section(target: Target) -> CudaSection:
    """Return the section for a process, which may be a command that does not run yet, and its descendants.

    :raises GpuTrackerError: Something is missing, which the text names.
    """
    if sys.platform != 'linux':
        raise GpuTrackerError('CUDA calls cannot be probed: the probe runs on Linux only.')
    from gpu_tracker.cuda_probe.probe_session import Probe, open_probe  # noqa: PLC0415 - what it needs exists on Linux only

    # Programs of Python often use the CUDA libraries that lie beside the interpreter, which is that of the tracker too.
    command = (sys.executable, *target.command)
    probe = open_probe(lambda: Probe(command=command, folder=target.folder), target.pid)
    return CudaSection(probe, target.pid)


class SectionFigures:
    """Makes plain data of each report; remembers the most memory of several programs together.

    :param main: The process that is tracked itself; all others are its descendants.
    """

    def __init__(self, main: int) -> None:
        self._main = main
        self._memory_max: dict[str, float] = {'main': 0, 'descendants': 0, 'combined': 0}

    def section(self, report: CudaReport) -> dict[str, object]:
        """Return the section."""
        processes = report.processes
        main = [process for process in processes if process.pid == self._main]
        descendants = [process for process in processes if process.pid != self._main]
        listed = _most_launched(processes)
        used = {device.uuid for process in listed for device in process.devices}
        notes = [_cut(note, _LONGEST_NOTE) for note in report.notes[:_MOST_NOTES]]
        if len(listed) < len(processes):
            notes.append(
                f'Of {len(processes)} programs the {len(listed)} with the most launches are listed one by one; '
                'the sums have all.'
            )
        return {
            'engine': report.engine,
            'seconds': report.seconds,
            'main': self._group('main', main),
            'descendants': self._group('descendants', descendants),
            'combined': self._group('combined', processes),
            'processes': [_process(process) for process in listed],
            'gpus': [base_units(gpu) for gpu in report.devices if gpu.uuid in used],
            'notes': notes,
        }

    def _group(self, name: str, processes: Sequence[ProcessReport]) -> dict[str, object]:
        current = sum(process.memory_current for process in processes)
        single = max((process.memory_max for process in processes), default=0)
        self._memory_max[name] = max(self._memory_max[name], current, single)
        return base_units(
            CUDAFigures(
                processes=len(processes),
                **{name: sum(getattr(process, name) for process in processes) for name in _ADDED},
                synchronising_seconds=sum((process.synchronising_seconds for process in processes), 0.0),
                launch_to_sync_seconds=_sum((process.launch_to_sync_seconds for process in processes), 0.0),
                memory_current=current,
                memory_max=self._memory_max[name],
                memory_leaked=_sum((process.memory_leaked for process in processes), 0),
                failed_calls=sum(failure.count for process in processes for failure in process.failures),
            )
        )


def _sum(values: Iterable[float | None], total: float) -> float | None:
    """Return the sum, beginning with ``total``; None where one is not known: a part would be taken for the whole."""
    for value in values:
        if value is None:
            return None
        total += value
    return total


def _most_launched(processes: Sequence[ProcessReport]) -> list[ProcessReport]:
    """Return the programs that are listed one by one, in the order that they have."""
    if len(processes) <= _MOST_PROCESSES:
        return list(processes)
    by_launches = sorted(range(len(processes)), key=lambda number: processes[number].launches, reverse=True)
    return [processes[number] for number in sorted(by_launches[:_MOST_PROCESSES])]


def _process(process: ProcessReport) -> dict[str, object]:
    return base_units(process, CUDAProcess) | {
        'name': _cut(process.name),
        'command': None if process.command is None else _cut(process.command),
        'devices': [base_units(device) for device in process.devices[:_MOST_DEVICES]],
        'kernels': [_kernel(kernel) for kernel in _foremost(process.kernels)],
        'failures': [base_units(failure) for failure in process.failures[:_MOST_FAILURES]],
    }


def _kernel(kernel: KernelReport) -> dict[str, object]:
    cut = {'name': _cut(kernel.name), 'file': None if kernel.file is None else _cut(kernel.file)}
    return base_units(kernel, CUDAKernel) | cut


def _foremost(kernels: Sequence[KernelReport]) -> list[KernelReport]:
    """Return the kernels that were launched most often, then those with the most time that are not among them."""
    often = sorted(kernels, key=lambda kernel: kernel.launches, reverse=True)
    others = sorted(often[_MOST_KERNELS:], key=lambda kernel: kernel.span_seconds or 0.0, reverse=True)
    return often[:_MOST_KERNELS] + [kernel for kernel in others[:_MOST_SLOW_KERNELS] if kernel.span_seconds]


def _cut(text: str, longest: int = _LONGEST) -> str:
    """Return a text that may be printed: programs write their own names."""
    text = printable(text)
    return text if len(text) <= longest else f'{text[: longest - 1]}…'
