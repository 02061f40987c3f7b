"""``gpu-tracker gpus``: the GPUs of this machine, their processes and claims."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from gpu_tracker.cli import options, output, screen
from gpu_tracker.errors import ParameterError
from gpu_tracker.gpus.inventory import Inventory
from gpu_tracker.gpus.machine import Machine, snapshot
from gpu_tracker.gpus.opening import BACKENDS, backends_of, check_brands
from gpu_tracker.system.users import user_name
from gpu_tracker.vendors import none_of

if TYPE_CHECKING:
    from gpu_tracker.gpus.machine import Seen

TEXT = """
Shows the GPUs of this machine: their use, processes, users and claims.

Usage:
  gpu-tracker gpus [options]
  gpu-tracker ls [options]

Options:
  --activity            Also show the activity of Hopper and newer NVIDIA GPUs: use
                        of SMs, occupancy, tensor cores and memory bandwidth. The
                        first reading takes a second.
  -f --format=<format>  Print the GPUs as text (a table) or as json. [default: text]
  --json                The same as --format=json.
  --gpu-brand, --gb=<brand>  Show only GPUs of these brands, separated by commas:
                        nvidia, amd, intel, or drm for all GPUs that do not use
                        NVIDIA's own driver.
  --watch               Refresh the table until you press Ctrl-C. With --json, print
                        one JSON object per line.
  --st, --interval=<s>  With --watch, refresh the table at this interval, in
                        seconds. [default: 2]
  --no-color            Print no colours. Setting the environment variable NO_COLOR
                        has the same effect. Colours need the package rich.
  -h --help             Print this text.
  -v --version          Print the version.

[ ] free   [~] in use   [!] in use by invisible processes   [c] claimed
[i] free: used only by a program of gpu-tracker idle, which makes way for a claim
[-] divided into MIG devices   [?] claims unknown   [x] unreadable

A GPU is free if nobody has claimed it and at most 20 % of its memory is in use.
gpu-tracker available lists such GPUs. The index of a GPU is its place in PCI bus order.
"""

OPTION_OF = {'gpu_brand': '--gb'}
_LONGEST_INTERVAL = 1e9
"""Seconds: the longest interval that clocks of all systems accept."""
_SHORTEST_ACTIVITY = 0.2
"""Seconds between two readings of the counters. At least 0.1 remain if a reading is late."""


def run(values: options.Values) -> int:
    """Show what ``values`` ask for, and return the exit code."""
    interval = _interval(str(values['--interval']))
    brands = None if values['--gb'] is None else check_brands(values['--gb'])
    watches = bool(values['--watch'])
    as_json = options.chosen_format(values, ('text', 'json')) == 'json'
    show = _Json(watches=watches) if as_json else _Table(color=not values['--no-color'], watches=watches)
    backends = BACKENDS if brands is None else backends_of(brands)
    shows_activity = bool(values['--activity'])
    if shows_activity:
        interval = max(interval, _SHORTEST_ACTIVITY)
    inventory = Inventory(backends, report=show.report, watches_activity=shows_activity)
    machine = Machine(show.report, inventory)
    try:
        seen = machine.read()
        if shows_activity:
            time.sleep(min(interval, 1.0))  # the counters are read twice
            seen = machine.read()
        if watches:
            return _watch(machine, interval, show, seen)
        absence = machine.absence(seen)
        if absence is not None:
            show.report(absence if brands is None else none_of(brands))
        return show(seen)
    finally:
        inventory.close()


def _interval(given: str) -> float:
    accepted = 'a positive number of seconds'
    seconds = options.time('--interval', given, accepted)
    if not 0 < seconds < float('inf'):
        raise ParameterError('--interval', given, accepted)
    return min(seconds, _LONGEST_INTERVAL)


def _watch(machine: Machine, interval: float, show: _Json | _Table, seen: Seen) -> int:
    """Show the GPUs at each point of a grid of time, until a signal or a failed write ends it."""
    following = time.monotonic()
    while True:
        code = show(seen)
        if code:
            return code
        now = time.monotonic()
        following = max(following + interval, now)
        time.sleep(following - now)
        seen = machine.read_again()


class _Json:
    """Prints each reading as a JSON object, with ``--watch`` on one line."""

    def __init__(self, *, watches: bool) -> None:
        self._indent = None if watches else 2
        self.report = output.complain

    def __call__(self, seen: Seen) -> int:
        import json  # noqa: PLC0415 - the table does without

        return output.print_text(f'{json.dumps(snapshot(seen), indent=self._indent)}\n')


class _Table:
    """Prints each reading as a table, with ``--watch`` on a terminal over the table before."""

    def __init__(self, *, color: bool, watches: bool) -> None:
        self._color = color and screen.shows_colors()
        self._place = screen.Place() if watches and screen.can_go_back() else None
        self._watches = watches

    def report(self, text: str) -> None:
        """Print a line outside the table. A table in place continues below it."""
        if self._place is not None:
            self._place.leave()
        output.complain(text)

    def __call__(self, seen: Seen) -> int:
        text = self._text(seen)
        if self._place is not None:
            return output.print_text(self._place.show(text))
        if self._watches:
            return output.print_text(f'{text}\n\n')
        return output.print_text(f'{text}\n') if seen.gpus else 0  # without GPUs a line on standard error says so

    def _text(self, seen: Seen) -> str:
        if not seen.gpus:
            return 'no GPU' if seen.driver_problem is None else f'not known: {seen.driver_problem}'
        from gpu_tracker.gpus.table import table_text  # noqa: PLC0415 - JSON does without

        width = screen.width() if self._place is None else self._place.width()
        return table_text(seen.gpus, width=width, now=seen.time, user_name=user_name, color=self._color)
