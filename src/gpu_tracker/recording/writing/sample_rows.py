"""Makes the rows of samples of a recording: of the run, of single GPUs and of single processes."""

from __future__ import annotations

from gpu_tracker.gpus.command_lines import process_name
from gpu_tracker.recording.schema import small_unit, stored_sum

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from gpu_tracker.processes import ProcessTree
    from gpu_tracker.recording.writing.recording_file import Statement
    from gpu_tracker.resources import Column, DeviceReading

GPU = 'INSERT OR IGNORE INTO gpus VALUES (?, ?, ?, ?)'
GPU_SAMPLE = 'INSERT OR IGNORE INTO gpu_samples VALUES (?, ?, ?, ?, ?)'
PROCESS = 'INSERT OR REPLACE INTO processes VALUES (?, ?, ?, ?, ?, ?)'
PROCESS_SAMPLE = 'INSERT OR IGNORE INTO process_samples (t, process, rss, cpu, n_threads) VALUES (?, ?, ?, ?, ?)'
"""Without GPU memory: Python's sqlite3 takes 0.4 µs to bind a None, which is 4 % of a sample."""
PROCESS_GPU_SAMPLE = 'INSERT OR IGNORE INTO process_samples VALUES (?, ?, ?, ?, ?, ?)'
_LONGEST_COMMAND = 200


class SampleRows:
    """Makes rows of ``samples``.

    :param columns: The columns of the resources that are sampled.
    :ivar sql: The statement that writes them.
    """

    def __init__(self, columns: Sequence[Column]) -> None:
        self.columns = columns
        names = [column.name for column in columns]
        self._factors = [1 / small_unit(column) for column in columns]
        self._sums = [
            (place, *map(names.index, others))
            for place, others in enumerate(stored_sum(name, names) for name in names)
            if others
        ]
        self.sql = f'INSERT INTO samples VALUES ({", ".join("?" * (len(names) + 1))})'  # noqa: S608 - question marks
        self._last = -1

    def descriptions(self) -> Statement:
        """Return what fills the table ``columns``."""
        names = [column.name for column in self.columns]
        rows = [
            (place, column.name, column.unit, column.kind, small_unit(column),
             ' '.join(stored_sum(column.name, names)), column.meaning)
            for place, column in enumerate(self.columns)
        ]  # fmt: skip
        return 'INSERT INTO columns VALUES (?, ?, ?, ?, ?, ?, ?)', rows

    def row(self, t: int, values: Sequence[float | None]) -> list[int | None]:
        """Return a row, later than all before."""
        self._last = t = max(t, self._last + 1)
        whole = [
            None if value is None else round(value * factor)
            for value, factor in zip(values, self._factors, strict=True)
        ]
        stored: list[int | None] = [t, *whole]
        for place, first, second in self._sums:
            value = whole[place]
            if value is not None:
                stored[place + 1] = value - (whole[first] or 0) - (whole[second] or 0)
        return stored


class ProcessRows:
    """Makes rows of ``processes`` and ``process_samples``.

    :param tree: The tracked processes.
    """

    def __init__(self, tree: ProcessTree) -> None:
        self._tree = tree
        self._known: dict[tuple[int, float], tuple[int, int, tuple[bytes, bytes]]] = {}
        self._count = 0

    def rows(self, t: int, gpu_ram: Mapping[int, int | None] | None = None) -> Iterable[tuple[str, Sequence[object]]]:
        """Yield a row for each process that runs, and before it the process if it is new, with their statements.

        :param gpu_ram: Bytes of GPU memory by pid; None: unknown.
        """
        known = {}
        for process in self._tree.members.values():
            if process.ended:
                continue
            key = (process.pid, process.start)
            before = self._known.get(key)
            if before is None:
                self._count += 1
            number, first, named = before or (self._count, t, None)
            names = process.name, process.command_line
            if named != names:  # it is new, or has become another program
                yield PROCESS, (number, process.pid, process.parent, process_name(*names), first, _command(names[1]))
            known[key] = number, first, names
            # Before its exec, what is resident is its parent's.
            rss = None if process.shares_memory else process.resident >> 10
            used = _kib(gpu_ram.get(process.pid)) if gpu_ram else None
            row = t, number, rss, round(process.own_cpu * 1e6), process.threads
            yield (PROCESS_SAMPLE, row) if used is None else (PROCESS_GPU_SAMPLE, (*row, used))
        self._known = known


class GpuRows:
    """Makes rows of ``gpus`` and ``gpu_samples``."""

    def __init__(self) -> None:
        self._known: dict[str, int] = {}

    def rows(self, t: int, device: DeviceReading) -> Iterable[tuple[str, Sequence[object]]]:
        """Yield a row for a reading of one GPU, and before it the GPU if it is new, with their statements."""
        number = self._known.get(device.uuid)
        if number is None:
            number = self._known[device.uuid] = len(self._known) + 1
            yield GPU, (number, device.uuid, device.name, _kib(device.total_ram))
        used = None if device.utilization is None else round(device.utilization * 100)
        yield GPU_SAMPLE, (t, number, _kib(device.ram), _kib(device.combined_ram), used)


def _command(command_line: bytes) -> str | None:
    """Return the words of a command line as ``ps`` shows them, cut if they are long; None if they are unknown."""
    words = command_line.rstrip(b'\0').replace(b'\0', b' ').decode(errors='replace')
    return (words if len(words) <= _LONGEST_COMMAND else f'{words[: _LONGEST_COMMAND - 1]}…') or None


def _kib(size: int | None) -> int | None:
    return None if size is None else round(size / 1024)
