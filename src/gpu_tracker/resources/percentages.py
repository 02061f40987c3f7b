"""How busy processing units were, in percent."""

from __future__ import annotations

from gpu_tracker import usage

_PERCENT = 100.0


def percentages(
    largest: float | None, mean: float | None, units_expected: int | None
) -> usage.ProcessingUnitPercentages:
    """Turn rates, 1.0 being one unit busy all the time, into percent summed and percent of the units expected."""

    def of_hardware(rate: float | None) -> float | None:
        return None if rate is None or units_expected is None else rate * _PERCENT / units_expected

    return usage.ProcessingUnitPercentages(
        max_sum_percent=None if largest is None else largest * _PERCENT,
        max_hardware_percent=of_hardware(largest),
        mean_sum_percent=None if mean is None else mean * _PERCENT,
        mean_hardware_percent=of_hardware(mean),
    )
