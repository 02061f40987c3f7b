"""One look at this machine: its GPUs with the claims on them, and what was wrong."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING, NamedTuple

from gpu_tracker.errors import ClaimsError, GpuError
from gpu_tracker.fleet.claims.folder import ClaimFolder
from gpu_tracker.fleet.identity import Identities
from gpu_tracker.fleet.inventory import Inventory, with_claims, without_claims
from gpu_tracker.fleet.snapshot_json import snapshot
from gpu_tracker.fleet.trouble import Trouble
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
    """What is looked at again and again; what is wrong is told when it changes.

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
        self._identities = Identities()
        self._claims = ClaimFolder()
        self._driver_trouble = Trouble(tell, 'the GPUs can be read again', clock)
        self._claims_trouble = Trouble(tell, 'claims are known again', clock)
        self._clock = clock
        self._search_due = clock() + _BETWEEN_SEARCHES

    @property
    def has_driver(self) -> bool:
        """Whether the last look has found a driver."""
        return self._inventory.has_driver

    def close(self) -> None:
        """Let go of the driver; the next look opens it anew."""
        self._inventory.close()
        self._identities.forget()

    def look(self) -> Seen:
        """Look at the GPUs and at the claims; one that is lost keeps the UUID, name and bus address that it had.

        :raises GpuError: A driver is there and does not work, or does not answer.
        """
        gpus = self._identities.completed(self._inventory.look())
        now = time.time()
        try:
            seen = Seen(now, with_claims(gpus, self._claims.claims()))
        except ClaimsError as error:
            self._claims_trouble.is_now(f'claims are not known: {error}')
            return Seen(now, without_claims(gpus), claims_problem=str(error))
        self._claims_trouble.is_now(None)
        return seen

    def look_again(self) -> Seen:
        """Look where a driver that fails may work again later, and one that is missing may be loaded later."""
        if not self._inventory.has_driver and self._clock() >= self._search_due:
            self._search_due = self._clock() + _BETWEEN_SEARCHES
            self.close()  # nothing is open; the next look opens what is there by now
        try:
            seen = self.look()
        except GpuError as error:
            self.tell(str(error))
            return Seen(time.time(), None, driver_problem=str(error))
        if seen.gpus:
            self.tell(None)
        return seen

    def absence(self, seen: Seen) -> str | None:
        """Return in words why a look has found no GPU; None where it has found one, or where that is not known."""
        if seen.gpus is None or seen.gpus:
            return None
        if self.has_driver:
            return 'this machine has a GPU driver and no GPU'
        return 'no GPU driver is installed or loaded on this machine'

    def tell(self, problem: str | None) -> None:
        """Tell why the last look has shown no GPU, where that was not told yet; None: it has shown one."""
        self._driver_trouble.is_now(problem)


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
