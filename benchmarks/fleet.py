"""The part ``fleet``: a dashboard of 1,000 hosts, its page in a browser, and nvgpu's master beside it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from benchmarks import fleet_masters, fleet_memory, fleet_page, fleet_rounds

if TYPE_CHECKING:
    from collections.abc import Sequence

    from benchmarks.session import Session

PART = 'fleet'


@dataclass(frozen=True)
class Plan:
    """What is measured.

    :ivar hour: Over which memory is looked at.
    """

    rounds: Sequence[fleet_rounds.Case] = fleet_rounds.CASES
    hour: fleet_memory.Case = fleet_memory.HOUR
    openings: Sequence[fleet_page.Opening] = fleet_page.OPENINGS
    scrollings: Sequence[fleet_page.Scrolling] = fleet_page.SCROLLINGS
    masters: Sequence[fleet_masters.Case] = fleet_masters.CASES


_QUICK = Plan(
    rounds=fleet_rounds.QUICK_CASES,
    hour=fleet_memory.QUICK_HOUR,
    scrollings=fleet_page.QUICK_SCROLLINGS,
)


def measure(session: Session, plan: Plan | None = None) -> None:
    """Measure all questions.

    :param plan: None: what this session has time for.
    """
    if plan is None:
        plan = _QUICK if session.quick else Plan()
    fleet_rounds.measure(session, PART, plan.rounds)
    fleet_memory.measure(session, PART, plan.hour)
    fleet_page.measure(session, PART, plan.openings, plan.scrollings)
    fleet_masters.measure(session, PART, plan.masters)
