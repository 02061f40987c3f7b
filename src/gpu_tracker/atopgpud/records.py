"""The figures that one client gets of each GPU, and the records of processes in one answer. Pure."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, NamedTuple

from gpu_tracker.atopgpud.counters import total

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gpu_tracker.atopgpud.counters import GpuCounters, ProcessCounters

UNKNOWN = -1
"""What stands for a percentage that is not known, also for a cumulative one."""


class Section(NamedTuple):
    """The figures that one client gets of one GPU."""

    gpu: GpuCounters
    offsets: tuple[int, int] = (0, 0)
    """What is taken off the two cumulative percentages, see :func:`offsets_after`."""
    ended: Sequence[ProcessCounters] = ()
    """Processes that have ended, and that this client has not got yet."""


def offsets_after(section: Section) -> tuple[int, int]:
    """Return the offsets for the next answer to a client that has got this section.

    A client takes the difference to the figure before, also where that was -1: all that had been counted until then
    would seem to be the work of one interval. So from then on as much is taken off that the difference is right.
    """
    gpu = section.gpu
    busy, memory_busy = section.offsets
    return (
        _offset_after(busy, gpu.busy_total, is_known=gpu.busy_now is not None),
        _offset_after(memory_busy, gpu.memory_busy_total, is_known=gpu.memory_busy_now is not None),
    )


def _offset_after(offset: int, total: int, *, is_known: bool) -> int:
    if not is_known:
        return total - UNKNOWN
    # Where nothing has been counted since, 0 was sent for -1, which would have meant unknown; 0 is what counts then.
    return min(offset, total)


class Record(NamedTuple):
    """A process on one GPU."""

    section: int
    """The index of the GPU."""
    state: str
    """``A``: active; ``E``: exited."""
    process: ProcessCounters
    is_busy_known: bool = True
    """Whether all GPUs that the process is on can be read just now."""


class _Hidden(NamedTuple):
    """A process on one GPU that has no record there."""

    process: ProcessCounters
    is_there: bool
    """Whether it is on the GPU, which cannot be read just now; else it has left it, or only draws on it."""


class _Process:
    """What is known of one process ID on all GPUs."""

    def __init__(self) -> None:
        self.shown: list[Record] = []
        self.hidden: list[_Hidden] = []

    @property
    def memory(self) -> int:
        return sum(record.process.memory for record in self.shown)

    def records(self) -> list[Record]:
        """Return what is shown, the first with the sums of what is hidden.

        A client adds up all records of a process and takes the difference to the sum before, which must not fall.
        """
        records = list(self.shown)
        for hidden in self.hidden:
            for place, record in enumerate(records):
                if record.process.started == hidden.process.started:
                    records[place] = _with_hidden(record, hidden)
                    break
        return records


def by_process(sections: Sequence[Section], *, drawing: bool) -> list[list[Record]]:
    """Return the records of each process, largest memory first.

    :param drawing: Whether processes that only draw on a GPU have records there.
    """
    found: defaultdict[int, _Process] = defaultdict(_Process)
    for place, section in enumerate(sections):
        gpu = section.gpu
        for process in gpu.processes.values():
            if process.only_draws and not drawing:
                found[process.pid].hidden.append(_Hidden(process, is_there=False))
            elif gpu.is_readable and gpu.are_listed:
                found[process.pid].shown.append(Record(place, 'A', process))
            else:
                found[process.pid].hidden.append(_Hidden(process, is_there=True))
        for process in section.ended:
            if process.has_left or (process.only_draws and not drawing):
                found[process.pid].hidden.append(_Hidden(process, is_there=False))
            else:
                found[process.pid].shown.append(Record(place, 'E', process))
        for process in gpu.left.values():
            found[process.pid].hidden.append(_Hidden(process, is_there=False))
    shown = [pid for pid, process in found.items() if process.shown]
    return [found[pid].records() for pid in sorted(shown, key=lambda pid: (-found[pid].memory, pid))]


def _with_hidden(record: Record, hidden: _Hidden) -> Record:
    process, other = record.process, hidden.process
    return record._replace(
        is_busy_known=record.is_busy_known and not hidden.is_there,
        process=process._replace(
            samples=process.samples + other.samples,
            busy_total=total(process.busy_total, other.busy_total),
            memory_busy_total=total(process.memory_busy_total, other.memory_busy_total),
            memory_total=process.memory_total + other.memory_total,
        ),
    )
