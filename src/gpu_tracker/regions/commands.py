"""The region of a command that another process runs and waits for."""

from __future__ import annotations

import time

from gpu_tracker.regions import log, process, text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping


class CommandRegion:
    """One run of a command, from the start of its program to the end of its process."""

    def __init__(self, name: str, attributes: Mapping[str, object]) -> None:
        self._files = log.find() or ()
        here = process.current
        self.id = here.next_id()
        self._parent = here.outer
        self._inherited = here.peak()
        self._name = text.field(name, text.LONGEST_NAME)
        self._attributes = text.attributes_field(attributes)

    def begin(self, process_id: int) -> None:
        """Write that the command begins in its process."""
        parent = '-' if self._parent is None else self._parent
        line = (
            f'B\t{self.id}\t{parent}\t{process_id}\t{process_id}\t-\t{time.monotonic_ns()}\t-\t-'
            f'\t{self._name}\t{self._attributes}\n'
        )
        self._write(line.encode('utf-8', 'replace'))

    def end(self, error: str | None, peak: int | None) -> None:
        """Write that the command has ended.

        :param peak: KiB of ``ru_maxrss`` of wait4(2). What this process had when it forked the command is in it, so it
            is known only where it is larger.
        """
        known = peak is not None and isinstance(self._inherited, int) and peak > self._inherited
        line = (
            f'E\t{self.id}\t{time.monotonic_ns()}\t-\t{peak if known else "-"}'
            f'\t{"-" if error is None else text.field(error)}\n'
        )
        self._write(line.encode('utf-8', 'replace'))

    def _write(self, line: bytes) -> None:
        for file in self._files:
            file.write(line)
