"""The part ``cuda``: what ``gpu-tracker probe`` costs a program that calls CUDA, and what is lost, beside bpftrace."""

from __future__ import annotations

from typing import TYPE_CHECKING

from benchmarks import cuda_cost, cuda_rates, cuda_start

if TYPE_CHECKING:
    from benchmarks.session import Session

PART = 'cuda'


def measure(session: Session) -> None:
    """Measure all questions."""
    cuda_cost.measure(session, PART, cuda_cost.CASES)
    cuda_rates.measure(session, PART, cuda_rates.CASES)
    cuda_start.measure(session, PART)
