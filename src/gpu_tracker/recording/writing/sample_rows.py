"""Rows of samples that wait for being written to a recording: of the run, of single GPUs and of single processes."""

from __future__ import annotations

from gpu_tracker.recording.schema import small_unit, stored_sum

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from gpu_tracker.processes import ProcessTree
    from gpu_tracker.recording.writing.recording_file import Statement
    from gpu_tracker.resources import Column, DeviceReading


class SampleRows:
    """Rows of ``samples`` that wait for being written.

    :param columns: Those of the resources that are sampled.
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
        self._sql = f'INSERT INTO samples VALUES ({", ".join("?" * (len(names) + 1))})'  # noqa: S608 - question marks
        self._rows: list[Sequence[int | None]] = []
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

    def add(self, t: int, values: Sequence[float | None]) -> None:
        """Add a row, later than those before."""
        self._last = t = max(t, self._last + 1)
        whole = [
            None if value is None else round(value * factor)
            for value, factor in zip(values, self._factors, strict=True)
        ]
        stored = [t, *whole]
        for place, first, second in self._sums:
            value = whole[place]
            if value is not None:
                stored[place + 1] = value - (whole[first] or 0) - (whole[second] or 0)
        self._rows.append(stored)

    def insertion(self) -> Statement:
        """Return what writes them."""
        return self._sql, self._rows

    def forget(self, count: int | None = None) -> None:
        """Forget the first ones, which were written; all of them where no number is given."""
        del self._rows[:count]

    def forget_oldest(self, most: int) -> int:
        """Keep so many, and return how many were dropped."""
        lost = max(0, len(self._rows) - most)
        del self._rows[:lost]
        return lost


class ProcessRows:
    """Rows of ``processes`` and ``process_samples`` that wait for being written.

    :param tree: The tracked processes.
    """

    def __init__(self, tree: ProcessTree) -> None:
        self._tree = tree
        self._known: dict[tuple[int, float], tuple[int, int, bytes]] = {}
        self._count = 0
        self._new: list[Sequence[object]] = []
        self._rows: list[Sequence[object]] = []

    def add(self, t: int) -> None:
        """Add a row for each process that runs."""
        known = {}
        for process in self._tree.members.values():
            if process.ended:
                continue
            key = (process.pid, process.start)
            before = self._known.get(key)
            if before is None:
                self._count += 1
            number, first, name = before or (self._count, t, b'')
            if name != process.name:  # it is new, or has become another program
                shown = process.name.decode(errors='replace')
                self._new.append((number, process.pid, process.parent, shown, first))
            known[key] = number, first, process.name
            # Before its exec, what is resident is its parent's.
            rss = None if process.shares_memory else process.resident >> 10
            self._rows.append((t, number, rss, round(process.own_cpu * 1e6), process.threads))
        self._known = known

    def insertions(self) -> Iterable[Statement]:
        """Return what writes them."""
        return (
            ('INSERT OR REPLACE INTO processes VALUES (?, ?, ?, ?, ?)', self._new),
            ('INSERT OR IGNORE INTO process_samples VALUES (?, ?, ?, ?, ?)', self._rows),
        )

    def forget(self) -> None:
        """Forget all, which were written."""
        self._new, self._rows = [], []

    def forget_oldest(self, most: int) -> None:
        """Keep so many samples."""
        del self._rows[:-most]


class GpuRows:
    """Rows of ``gpus`` and ``gpu_samples`` that wait for being written."""

    def __init__(self) -> None:
        self._known: dict[str, int] = {}
        self._new: list[Sequence[object]] = []
        self._rows: list[Sequence[object]] = []

    def add(self, t: int, device: DeviceReading) -> None:
        """Add a row for a reading of one GPU."""
        number = self._known.get(device.uuid)
        if number is None:
            number = self._known[device.uuid] = len(self._known) + 1
            self._new.append((number, device.uuid, device.name, _kib(device.total_ram)))
        used = None if device.utilization is None else round(device.utilization * 100)
        self._rows.append((t, number, _kib(device.ram), _kib(device.combined_ram), used))

    def insertions(self) -> Iterable[Statement]:
        """Return what writes them."""
        return (
            ('INSERT OR IGNORE INTO gpus VALUES (?, ?, ?, ?)', self._new),
            ('INSERT OR IGNORE INTO gpu_samples VALUES (?, ?, ?, ?, ?)', self._rows),
        )

    def forget(self) -> None:
        """Forget all, which were written."""
        self._new, self._rows = [], []

    def forget_oldest(self, most: int) -> None:
        """Keep so many samples."""
        del self._rows[:-most]


def _kib(size: int | None) -> int | None:
    return None if size is None else round(size / 1024)
