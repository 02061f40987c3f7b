"""Resident memory of a tree at one sample, in bytes; ``None`` is what could not be read."""

from __future__ import annotations

from gpu_tracker.resources import GROUPS, larger

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence


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


class RamMaxima:
    """The largest resident sizes so far.

    The totals hold bytes: ``main``, ``descendants`` and ``combined``, each ``[total, private, shared]``; ``lower`` has
    what of the three is certain, in the same form, ``upper`` what the total of each can have been at most.
    ``beside_descendants`` is what all had together when the descendants had most. What was never known is ``None``.
    """

    def __init__(self) -> None:
        self._last: RamReading | None = None
        self._maxima: dict[str, list[int | None]] = {group: [None, None, None] for group in GROUPS}
        self._firm = self._maxima
        """The same, of what is not only estimated."""
        self._lower: dict[str, list[int | None]] = {group: [None, None, None] for group in GROUPS}
        self._upper: list[int | None] = [None, None, None]
        self._beside_descendants: int | None = None

    @property
    def last(self) -> RamReading | None:
        """The reading that was added last."""
        return self._last

    @property
    def most_for_certain(self) -> int | None:
        """The most bytes that all had together, as far as that is certain; None where it was never known."""
        return self._lower['combined'][0]

    def add(self, ram: RamReading) -> None:
        """Take in the memory of one sample.

        What is only estimated stands until the next time that pages are counted, and after that as far as what has been
        given back in between can explain it.
        """
        if ram is self._last:
            return
        self._last = ram
        before = self._maxima['descendants'][0] or 0
        maxima = {group: list(sizes) for group, sizes in (self._firm if ram.is_exact else self._maxima).items()}
        for group, resident in zip(GROUPS, (ram.main, ram.descendants, ram.combined), strict=True):
            if ram.is_exact:
                _fold_estimated(maxima[group], self._maxima[group], resident, ram.given_back)
            _fold(maxima[group], resident)
            _fold_certain(self._lower[group], resident, is_exact=ram.is_exact)
        if ram.is_exact:
            self._firm = {group: list(sizes) for group, sizes in maxima.items()}
        for group, resident in zip(GROUPS, (ram.main, ram.descendants, ram.combined), strict=True):
            _fold_peak(maxima[group], resident)
        self._maxima = maxima
        if (maxima['descendants'][0] or 0) > before:
            self._beside_descendants = larger(ram.combined.total, ram.combined.peak)
        self._upper = list(ram.upper)

    def totals(self) -> dict[str, object]:
        """Return the maxima so far, see the class' description."""
        return {
            **{group: list(maxima) for group, maxima in self._maxima.items()},
            'lower': {group: list(maxima) for group, maxima in self._lower.items()},
            'upper': dict(zip(GROUPS, self._upper, strict=True)),
            'beside_descendants': self._beside_descendants,
        }


def _fold(maxima: list[int | None], resident: Resident) -> None:
    if not resident.total:
        return  # a group without processes tells nothing of what others that it had were made of
    maxima[0] = larger(maxima[0], resident.total)
    maxima[1] = larger(maxima[1], resident.private)
    maxima[2] = larger(maxima[2], resident.shared)


def _fold_peak(maxima: list[int | None], resident: Resident) -> None:
    if not resident.peak:
        return
    maxima[0] = larger(maxima[0], resident.peak)


def _fold_estimated(
    maxima: list[int | None], estimated: Sequence[int | None], counted: Resident, given_back: int
) -> None:
    """Fold what was estimated since the last counting, as far as it agrees with what is ``counted`` now."""
    for kind, estimate in enumerate(estimated):
        explained = estimate
        if estimate is not None and counted.total is not None:
            explained = min(estimate, counted.total + given_back)
        maxima[kind] = larger(maxima[kind], explained)


def _fold_certain(certain: list[int | None], resident: Resident, *, is_exact: bool) -> None:
    if resident.lower:
        certain[0] = larger(certain[0], resident.lower)
    if is_exact and resident.total:
        certain[1] = larger(certain[1], resident.private)
        certain[2] = larger(certain[2], resident.shared)
