"""How much of an idle GPU a program gets that ends with exit code 0 after each unit of its work: simulated.

    PYTHONPATH=src python -m benchmarks.idle_units

The monitor's own functions decide, with a clock that is advanced. gpu_mon starts a program at the first point of its
interval at which the program does not run.
"""

from __future__ import annotations

import math

from benchmarks.tables import Table
from gpu_tracker.idle.config.idle_settings import GpuId, Program
from gpu_tracker.idle.decision import Start, decide
from gpu_tracker.idle.schedule import PollSchedule, next_change
from gpu_tracker.idle.state import Observation, State, WatchedGpu, with_end

UNITS = (1, 1.5, 2, 10, 60)
"""Seconds that a unit takes."""
SETTINGS = ((10, 1), (10, 0), (1, 1), (1, 0))
"""``interval_seconds`` and ``restart_backoff_seconds``; the first are the defaults."""

START = 0.1
"""Seconds more than a unit from the decision to start until the monitor knows of the end: measured."""
_POLL = 0.01
"""CPU seconds of a poll on a machine with 2,000 processes."""
_WINDOW = 3600.0
_IDLE = Observation((WatchedGpu(GpuId(0)),))


def share(unit: float, interval: float, backoff: float) -> float:
    """Return the part of an hour in which a unit runs under ``gpu-tracker idle``."""
    program = Program('units', (GpuId(0),), ('unit',), '/', restart_backoff=backoff, interval=interval)
    state, schedule, now, worked = State(), PollSchedule(interval, 0.0), 0.0, 0.0
    end = math.inf
    while now < _WINDOW or end < math.inf:
        now = min(schedule.due, end)
        if now == end:
            state, end, worked = with_end(state, program.name, now, failed=False), math.inf, worked + unit
            schedule.poll_soon(now)
            continue
        state, actions = decide([program], state, _IDLE, now)
        end = now + unit + START if any(isinstance(action, Start) for action in actions) else end
        schedule.polled(now, now, _POLL)
        schedule.at(next_change([program], state, now))
    return worked / now


def share_of_gpu_mon(unit: float, interval: float) -> float:
    """Return the part of the time in which a unit runs under gpu_mon if its own work takes no time."""
    return unit / (math.ceil(unit / interval) * interval)


def table() -> Table:
    """Return the shares of all units, rounded down."""
    return Table(
        'idle: share of an idle GPU that a program gets that ends with exit code 0 after each unit of work (%)',
        ['seconds of a unit']
        + [f'interval {interval} s, back-off {backoff} s' for interval, backoff in SETTINGS]
        + [f'gpu_mon, {interval} s, at most' for interval in (10, 1)],
        [
            [
                f'{unit:g}',
                *(f'{math.floor(100 * share(unit, *setting))}' for setting in SETTINGS),
                *(f'{math.floor(100 * share_of_gpu_mon(unit, interval))}' for interval in (10, 1)),
            ]
            for unit in UNITS
        ],
    )


if __name__ == '__main__':
    print(table().render())  # noqa: T201
