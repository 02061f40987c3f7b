"""``gpu-tracker gpus``: the GPUs of this machine, what is on them and who has claimed them."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING

from gpu_tracker import __version__
from gpu_tracker.cli import options, output, screen
from gpu_tracker.errors import ClaimsError, ParameterError
from gpu_tracker.fleet.claims.folder import ClaimFolder
from gpu_tracker.fleet.inventory import Inventory, with_claims
from gpu_tracker.fleet.users import user_name

if TYPE_CHECKING:
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
[-] divided into MIG devices   [x] cannot be read

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
    machine = _Machine()
    try:
        if values['--watch']:
            return _watch(machine, interval, as_json=bool(values['--json']), color=not values['--no-color'])
        gpus = machine.look()
        if not machine.has_driver:
            output.complain('no GPU driver is installed or loaded on this machine')
        elif not gpus:
            output.complain('this machine has a GPU driver and no GPU')
        if values['--json']:
            return output.print_text(f'{_json(gpus, indent=2)}\n')
        text = _table(gpus, screen.width(), color=not values['--no-color'] and screen.shows_colors())
        return output.print_text(f'{text}\n' if gpus else '')
    finally:
        machine.close()


class _Machine:
    """What is asked again and again; says once what is wrong with the claims."""

    def __init__(self) -> None:
        self._inventory = Inventory()
        self._has_complained = False
        self.close = self._inventory.close

    @property
    def has_driver(self) -> bool:
        return self._inventory.has_driver

    def look(self) -> list[Gpu]:
        gpus = self._inventory.look()
        try:
            return with_claims(gpus, ClaimFolder().claims())
        except ClaimsError as error:
            if not self._has_complained:
                self._has_complained = True
                output.complain(f'claims are not shown: {error}')
            return gpus


def _interval(given: str) -> float:
    accepted = 'a positive number of seconds'
    seconds = options.number('--interval', float, given, accepted)
    if not 0 < seconds < float('inf'):
        raise ParameterError('--interval', given, accepted)
    return min(seconds, _LONGEST_INTERVAL)


def _watch(machine: _Machine, interval: float, *, as_json: bool, color: bool) -> int:
    """Show the GPUs at each point of a grid of time, until a signal or a failed write ends it."""
    following = time.monotonic()
    while True:
        gpus = machine.look()
        if as_json:
            code = output.print_text(f'{_json(gpus, indent=None)}\n')
        else:
            text = _table(gpus, screen.width(), color=color and screen.shows_colors()) if gpus else 'no GPU'
            code = output.print_text(screen.in_place(text) if screen.can_go_back() else f'{text}\n\n')
        if code:
            return code
        now = time.monotonic()
        following = max(following + interval, now)
        time.sleep(following - now)


def _json(gpus: list[Gpu], indent: int | None) -> str:
    import json  # noqa: PLC0415 - the table does without

    from gpu_tracker.fleet.snapshot_json import snapshot  # noqa: PLC0415

    hostname = os.uname().nodename if hasattr(os, 'uname') else os.environ.get('COMPUTERNAME', '')
    seen = snapshot(gpus, hostname=hostname, now=time.time(), user_name=user_name)
    return json.dumps(seen, indent=indent)


def _table(gpus: list[Gpu], width: int | None, *, color: bool) -> str:
    from gpu_tracker.fleet.display.table import table_text  # noqa: PLC0415 - JSON does without

    return table_text(gpus, width=width, now=time.time(), user_name=user_name, color=color)
