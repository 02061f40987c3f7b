"""Claims in words, below the table."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpu_tracker.fleet.claims.wording import describe

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from gpu_tracker.fleet.claims.claim import Claim
    from gpu_tracker.fleet.gpu import Gpu


def claim_lines(gpus: Iterable[Gpu], now: float, user_name: Callable[[int], str]) -> list[str]:
    """Return a line for each claim: ``GPU 1: claimed by alice (pid 4242, python train.py)``.

    :param now: Seconds since 1970.
    :param user_name: Tells the name of the user with an ID.
    """
    claimed: dict[Claim, list[str]] = {}
    for gpu in gpus:
        for part in gpu.devices():
            if part.claim is not None:
                claimed.setdefault(part.claim, []).append(part.label)
    return [f'{", ".join(labels)}: {describe(claim, now, user_name)}' for claim, labels in claimed.items()]
