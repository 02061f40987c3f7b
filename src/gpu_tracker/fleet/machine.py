"""One look at this machine: its GPUs with the claims on them, and what was wrong."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING, NamedTuple

from gpu_tracker.errors import ClaimsError, GpuError
from gpu_tracker.fleet.claims.folder import ClaimFolder
from gpu_tracker.fleet.inventory import Inventory, with_claims, without_claims
from gpu_tracker.fleet.snapshot_json import snapshot
from gpu_tracker.users import user_name

if TYPE_CHECKING:
    from collections.abc import Callable

    from gpu_tracker.fleet.gpu import Gpu

_BETWEEN_SEARCHES = 30.0
"""Seconds between two searches for a driver that was not there: some libraries start a program to load it."""


class Seen(NamedTuple):
    """One look at the machine, and what was wrong with it."""

    time: float
    """Seconds since 1970."""
    gpus: list[Gpu] | None
    """None: not known."""
    driver_problem: str | None = None
    """Why the GPUs are not known."""
    claims_problem: str | None = None
    """Why the claims on them are not known."""


class Machine:
    """What is looked at again and again; each thing that is wrong is told once.

    :param tell: Called with a text for people.
    :param inventory: The GPUs; None: those of this machine.
    :param clock: Monotonic seconds.
    :raises gpu_tracker.errors.ParameterError: The environment variable ``GPU_TRACKER_CLAIMS`` is no absolute path.
    """

    def __init__(
        self,
        tell: Callable[[str], None],
        inventory: Inventory | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._inventory = Inventory(tell=tell) if inventory is None else inventory
        self._claims = ClaimFolder()
        self._tell = tell
        self._told: set[str] = set()
        self._clock = clock
        self._search_due = clock() + _BETWEEN_SEARCHES
        self.close = self._inventory.close

    @property
    def has_driver(self) -> bool:
        """Whether the last look has found a driver."""
        return self._inventory.has_driver

    def look(self) -> Seen:
        """Look at the GPUs and at the claims.

        :raises GpuError: A driver is there and does not work, or does not answer.
        """
        gpus = self._inventory.look()
        now = time.time()
        try:
            return Seen(now, with_claims(gpus, self._claims.claims()))
        except ClaimsError as error:
            self.tell_once(f'claims are not known: {error}')
            return Seen(now, without_claims(gpus), claims_problem=str(error))

    def look_again(self) -> Seen:
        """Look where a driver that fails may work again later, and one that is missing may be loaded later."""
        if not self._inventory.has_driver and self._clock() >= self._search_due:
            self._search_due = self._clock() + _BETWEEN_SEARCHES
            self._inventory.close()  # nothing is open; the next look opens what is there by now
        try:
            return self.look()
        except GpuError as error:
            self.tell_once(str(error))
            return Seen(time.time(), None, driver_problem=str(error))

    def absence(self, seen: Seen) -> str | None:
        """Return in words why a look has found no GPU; None where it has found one, or where that is not known."""
        if seen.gpus is None or seen.gpus:
            return None
        if self.has_driver:
            return 'this machine has a GPU driver and no GPU'
        return 'no GPU driver is installed or loaded on this machine'

    def tell_once(self, text: str) -> None:
        """Tell a text that was not told yet."""
        if text not in self._told:
            self._told.add(text)
            self._tell(text)


def host_name() -> str:
    """Return the name by which this machine knows itself."""
    return (os.uname().nodename if hasattr(os, 'uname') else os.environ.get('COMPUTERNAME', '')) or 'localhost'


def snapshot_of(seen: Seen) -> dict[str, object]:
    """Return a look as plain data, see ``gpu_tracker.fleet.snapshot_json``; the names of users are looked up."""
    return snapshot(
        seen.gpus,
        hostname=host_name(),
        now=seen.time,
        user_name=user_name,
        driver_problem=seen.driver_problem,
        claims_problem=seen.claims_problem,
    )
