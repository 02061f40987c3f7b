"""``gpu-tracker gpus``: the GPUs of this machine, what is on them and who has claimed them."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING, NamedTuple

from gpu_tracker import __version__
from gpu_tracker.cli import options, output, screen
from gpu_tracker.errors import ClaimsError, GpuError, ParameterError
from gpu_tracker.fleet.claims.folder import ClaimFolder
from gpu_tracker.fleet.inventory import Inventory, with_claims, without_claims
from gpu_tracker.users import user_name

if TYPE_CHECKING:
    from collections.abc import Callable

    from gpu_tracker.fleet.gpu import Gpu

TEXT = """
Shows the GPUs of this machine: what is in use, by whom, and who has claimed what.

Usage:
  gpu-tracker gpus [options]
  gpu-tracker ls [options]

Options:
  --json                Print one JSON object instead of a table; the documentation
                        tells its keys.
  --watch               Show it again and again, in place, until Ctrl-C. With --json,
                        one object a line.
  --interval=<s>        The time between two looks of --watch: a positive number of
                        seconds. [default: 2]
  --no-color            Use no colours. They are used on a terminal only, where the
                        package rich is installed and NO_COLOR is not set.
  -h --help             Print this text.
  -v --version          Print the version.

[ ] free   [~] in use   [!] in use by processes that cannot be seen   [c] claimed
[-] divided into MIG devices   [?] claims not known   [x] cannot be read

A GPU is free where `gpu-tracker available` gives it: at most 20 % of its memory is
in use and nobody has claimed it. The index is the place in PCI bus order.
"""

_LONGEST_INTERVAL = 1e9
"""Seconds: longer than anybody waits, and short enough for every system's clock."""


def run(arguments: list[str]) -> int:
    """Show what ``arguments`` ask for, and return the exit code."""
    values = options.parse(TEXT, f'gpu-tracker {__version__}', arguments[1:], arguments[0])
    if isinstance(values, str):
        return output.print_text(values)
    interval = _interval(str(values['--interval']))
    watches = bool(values['--watch'])
    show = _Json(watches=watches) if values['--json'] else _Table(color=not values['--no-color'], watches=watches)
    machine = _Machine(show.tell)
    try:
        seen = machine.look()
        if watches:
            return _watch(machine, interval, show, seen)
        if not machine.has_driver:
            show.tell('no GPU driver is installed or loaded on this machine')
        elif not seen.gpus:
            show.tell('this machine has a GPU driver and no GPU')
        return show(seen)
    finally:
        machine.close()


class _Seen(NamedTuple):
    """One look at the machine, and what was wrong with it."""

    time: float
    gpus: list[Gpu] | None
    driver_problem: str | None = None
    claims_problem: str | None = None


class _Machine:
    """What is looked at again and again; each thing that is wrong is told once."""

    def __init__(self, tell: Callable[[str], None]) -> None:
        self._inventory = Inventory(tell=tell)
        self._tell = tell
        self._told: set[str] = set()
        self.close = self._inventory.close

    @property
    def has_driver(self) -> bool:
        return self._inventory.has_driver

    def look(self) -> _Seen:
        gpus = self._inventory.look()
        now = time.time()
        try:
            return _Seen(now, with_claims(gpus, ClaimFolder().claims()))
        except ClaimsError as error:
            self._tell_once(f'claims are not known: {error}')
            return _Seen(now, without_claims(gpus), claims_problem=str(error))

    def look_again(self) -> _Seen:
        """Look where a driver that fails may work again later."""
        try:
            return self.look()
        except GpuError as error:
            self._tell_once(str(error))
            return _Seen(time.time(), None, driver_problem=str(error))

    def _tell_once(self, text: str) -> None:
        if text not in self._told:
            self._told.add(text)
            self._tell(text)


def _interval(given: str) -> float:
    accepted = 'a positive number of seconds'
    seconds = options.number('--interval', float, given, accepted)
    if not 0 < seconds < float('inf'):
        raise ParameterError('--interval', given, accepted)
    return min(seconds, _LONGEST_INTERVAL)


def _watch(machine: _Machine, interval: float, show: _Json | _Table, seen: _Seen) -> int:
    """Show the GPUs at each point of a grid of time, until a signal or a failed write ends it."""
    following = time.monotonic()
    while True:
        code = show(seen)
        if code:
            return code
        now = time.monotonic()
        following = max(following + interval, now)
        time.sleep(following - now)
        seen = machine.look_again()


class _Json:
    """Prints a look as one JSON object, while watching in one line."""

    def __init__(self, *, watches: bool) -> None:
        self._indent = None if watches else 2
        self.tell = output.complain

    def __call__(self, seen: _Seen) -> int:
        import json  # noqa: PLC0415 - the table does without

        from gpu_tracker.fleet.snapshot_json import snapshot  # noqa: PLC0415

        taken = snapshot(
            seen.gpus,
            hostname=os.uname().nodename if hasattr(os, 'uname') else os.environ.get('COMPUTERNAME', ''),
            now=seen.time,
            user_name=user_name,
            driver_problem=seen.driver_problem,
            claims_problem=seen.claims_problem,
        )
        return output.print_text(f'{json.dumps(taken, indent=self._indent)}\n')


class _Table:
    """Prints a look as a table, while watching on a terminal in the place of the table before."""

    def __init__(self, *, color: bool, watches: bool) -> None:
        self._color = color and screen.shows_colors()
        self._place = screen.Place() if watches and screen.can_go_back() else None
        self._watches = watches

    def tell(self, text: str) -> None:
        """Print a line that is no part of the table; where tables stand in one place, they follow below it."""
        if self._place is not None:
            self._place.leave()
        output.complain(text)

    def __call__(self, seen: _Seen) -> int:
        text = self._text(seen)
        if self._place is not None:
            return output.print_text(self._place.show(text))
        if self._watches:
            return output.print_text(f'{text}\n\n')
        return output.print_text(f'{text}\n') if seen.gpus else 0  # without GPUs a line on standard error says so

    def _text(self, seen: _Seen) -> str:
        if not seen.gpus:
            return 'no GPU' if seen.driver_problem is None else f'not known: {seen.driver_problem}'
        from gpu_tracker.fleet.display.table import table_text  # noqa: PLC0415 - JSON does without

        width = screen.width() if self._place is None else self._place.width()
        return table_text(seen.gpus, width=width, now=seen.time, user_name=user_name, color=self._color)
