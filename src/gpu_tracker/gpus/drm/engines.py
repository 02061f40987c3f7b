"""How busy engines were with a client, from counters that may go backwards; pure."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from gpu_tracker.gpus.drm.fdinfo import Client, Key

_NANOSECONDS = 1e9
_FULL = 100.0


class EngineShares:
    """The share of time that the engines of each kind have worked for each client since the reading before.

    A counter that is lower than before is taken for the larger one until it has caught up, as the kernel's
    documentation asks. A client that is seen for the first time has no share yet: what it has used before may be from
    long ago.
    """

    def __init__(self) -> None:
        self._last: dict[Key, dict[str, tuple[int, int | None]]] = {}
        """Client -> kind of engine -> its counter, and the cycles that had passed."""
        self._at: float | None = None

    def update(self, clients: Iterable[Client], now: float) -> dict[Key, dict[str, float]]:
        """Take a reading in; return the shares, 1.0 being all engines of a kind all the time.

        :param now: Monotonic seconds.
        """
        seconds = 0.0 if self._at is None else now - self._at
        last, self._last, self._at = self._last, {}, now
        shares: dict[Key, dict[str, float]] = {}
        for client in clients:
            before = last.get(client.key)
            counters = self._last[client.key] = _merged(before or {}, _counters(client))
            if before is not None:
                shares[client.key] = _shares(client.capacity, before, counters, seconds)
        return shares


def busiest(shares: Iterable[Mapping[str, float]]) -> float:
    """Return the percent of the busiest kind of engine, for several clients together."""
    sums: dict[str, float] = {}
    for of_client in shares:
        for name, share in of_client.items():
            sums[name] = sums.get(name, 0.0) + share
    return min(_FULL, _FULL * max(sums.values(), default=0.0))


def _counters(client: Client) -> dict[str, tuple[int, int | None]]:
    """Return the counters; where a driver has both, cycles and those that have passed need no clock of ours."""
    counters: dict[str, tuple[int, int | None]] = {name: (time, None) for name, time in client.nanoseconds.items()}
    counters.update(client.cycles)
    return counters


def _merged(
    before: Mapping[str, tuple[int, int | None]], now: dict[str, tuple[int, int | None]]
) -> dict[str, tuple[int, int | None]]:
    merged = dict(now)
    for name, (counter, passed) in before.items():
        if name not in now or counter > now[name][0]:
            merged[name] = (counter, now[name][1] if name in now else passed)
    return merged


def _shares(
    capacity: Mapping[str, int],
    before: Mapping[str, tuple[int, int | None]],
    now: Mapping[str, tuple[int, int | None]],
    seconds: float,
) -> dict[str, float]:
    shares = {}
    for name, (counter, passed) in now.items():
        old, old_passed = before.get(name, (0, None))
        if passed is None:
            whole = seconds * _NANOSECONDS
        else:
            whole = float(passed - old_passed) if old_passed is not None else 0.0
        if whole > 0:
            shares[name] = (counter - old) / whole / capacity.get(name, 1)
    return shares
