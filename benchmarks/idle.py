"""The part ``idle``: the monitor that runs programs on idle GPUs, how fast it yields, and what it costs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from benchmarks import idle_cost, idle_noticing, idle_yield

if TYPE_CHECKING:
    from collections.abc import Sequence

    from benchmarks.session import Session

PART = 'idle'

_QUICK_CASES = tuple(case for case in idle_yield.CASES if case.interval == 1)


def measure(
    session: Session,
    cases: Sequence[idle_yield.Case] | None = None,
    scenes: Sequence[idle_cost.Scene] = idle_cost.SCENES,
    ways: Sequence[idle_noticing.Way] = idle_noticing.WAYS,
) -> None:
    """Measure all three questions; idle_units needs no measurement.

    :param cases: Those of ``idle_yield``; None: those that this session has time for.
    """
    if cases is None:
        cases = _QUICK_CASES if session.quick else idle_yield.CASES
    idle_yield.measure(session, PART, cases)
    idle_cost.measure(session, PART, scenes)
    idle_noticing.measure(session, PART, ways)
