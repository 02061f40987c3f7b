"""Resident memory of a tree at one sample, in bytes; ``None`` is what could not be read."""

from __future__ import annotations


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
