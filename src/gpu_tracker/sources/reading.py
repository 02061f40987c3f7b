"""What one sample says, in base units: bytes, CPU seconds, counts. What could not be read is ``None``."""

from __future__ import annotations

FIRST = 'first'
MIDDLE = 'middle'
LAST = 'last'
"""Where a sample stands in a run."""


class Resident:
    """Resident bytes of a process or a group, each page counted once.

    ``peak`` is what was resident at some moment since the last sample, where that is more than ``total``; ``lower`` is
    what of both is certain.
    """

    __slots__ = ('lower', 'peak', 'private', 'shared', 'total')

    def __init__(self, total: int | None, private: int | None = None, shared: int | None = None) -> None:
        self.total = total
        self.private = private
        self.shared = shared
        self.peak: int | None = None
        self.lower = total


class RamReading:
    """Resident bytes of the root, of its descendants, and of all of them together.

    ``upper`` is what each of the three can have had at most until now; None is what is not known. ``is_exact`` tells
    that pages were counted, and ``given_back`` how many bytes were given back since they were counted before: what was
    estimated in between cannot have been more than both together.
    """

    __slots__ = ('combined', 'descendants', 'given_back', 'is_exact', 'main', 'upper')

    def __init__(
        self,
        main: Resident,
        descendants: Resident,
        combined: Resident,
        upper: tuple[int | None, int | None, int | None],
    ) -> None:
        self.main = main
        self.descendants = descendants
        self.combined = combined
        self.upper = upper
        self.is_exact = False
        self.given_back = 0


class CpuReading:
    """CPU seconds since the start, which never decrease, and threads at this moment.

    ``begun`` is when the reading of them began, where that is known: on a busy machine it may take its time.
    """

    __slots__ = ('begun', 'descendants', 'descendants_threads', 'main', 'main_threads')

    def __init__(
        self,
        main: float,
        descendants: float,
        main_threads: int,
        descendants_threads: int,
        begun: float | None = None,
    ) -> None:
        self.main = main
        self.descendants = descendants
        self.main_threads = main_threads
        self.descendants_threads = descendants_threads
        self.begun = begun


class SystemReading:
    """Bytes in use on the machine, and the CPU seconds that all its cores together have been busy."""

    __slots__ = ('cpu', 'ram')

    def __init__(self, ram: int | None, cpu: float | None) -> None:
        self.ram = ram
        self.cpu = cpu


def larger(known: int | None, value: int | None) -> int | None:
    """Return the larger of two values of which either may be unknown."""
    if known is None or value is None:
        return value if known is None else known
    return max(known, value)
