"""How busy engines were with a client, from counters that may go backwards; pure."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from gpu_tracker.gpus.drm.fdinfo import Client, Key

    Shares = Mapping[str, float]
    """By kind of engine; 1.0: all engines of the kind have worked all the time."""

_NANOSECONDS = 1e9
_FULL = 100.0


class EngineShares:
    """The share of time that the engines of each kind have worked for each client since the reading before.

    A counter that is lower than before is taken for the larger one until it has caught up, as the kernel's
    documentation asks. A client that is seen for the first time has no share yet: what it has used before may be from
    long ago.
    """

    def __init__(self) -> None:
        self._last: dict[Key, _Counters] = {}
        self._at: float | None = None

    def update(self, clients: Iterable[Client], now: float) -> dict[Key, Shares]:
        """Take a reading in; return the shares, without those clients that were not there at the reading before.

        :param now: Monotonic seconds.
        """
        nanoseconds = 0.0 if self._at is None else (now - self._at) * _NANOSECONDS
        last, self._last, self._at = self._last, {}, now
        shares: dict[Key, Shares] = {}
        for client in clients:
            key = client.key
            counters = last.get(key)
            if counters is None:
                counters = _Counters(client)
            else:
                shares[key] = counters.advance(client, nanoseconds)
            self._last[key] = counters
        return shares


class _Counters:
    """The largest counters of a client so far.

    One that was not there counts from 0: amdgpu leaves out engines that have not worked yet.
    """

    __slots__ = ('_cycles', '_nanoseconds', '_passed')

    def __init__(self, client: Client) -> None:
        self._nanoseconds = dict(client.nanoseconds)
        self._cycles = dict(client.cycles)
        self._passed = dict(client.passed)

    def advance(self, client: Client, nanoseconds: float) -> Shares:
        """Return the shares since the last call; of cycles the driver itself says how many have passed."""
        shares = {}
        for name, counter in client.nanoseconds.items():
            worked = counter - self._nanoseconds.get(name, 0)
            if worked > 0:
                self._nanoseconds[name] = counter
                if nanoseconds > 0:
                    shares[name] = worked / nanoseconds / max(1, client.capacity.get(name, 1))
        for name, counter in client.cycles.items():
            worked = counter - self._cycles.get(name, 0)
            passed = client.passed.get(name, 0) - self._passed.get(name, 0)
            if worked > 0:
                self._cycles[name] = counter
            if passed > 0:
                self._passed[name] = client.passed[name]
                if worked > 0:
                    shares[name] = worked / passed / max(1, client.capacity.get(name, 1))
        return shares


def busiest(shares: Iterable[Shares]) -> float:
    """Return the percent of the busiest kind of engine, for several clients together."""
    sums: dict[str, float] = {}
    for of_client in shares:
        if not sums:  # most processes have one client
            sums = dict(of_client)
            continue
        for name, share in of_client.items():
            sums[name] = sums.get(name, 0.0) + share
    return min(_FULL, _FULL * max(sums.values())) if sums else 0.0
