"""The documented result made from the totals of a run: units are converted here, once."""

from __future__ import annotations

from gpu_tracker import units, usage

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from gpu_tracker.cuda_usage import CUDAUsage

    Totals = dict[str, Any]
    """See :mod:`gpu_tracker.aggregation`, with the machine's own figures, those of the GPUs and the sections that were
    asked for added by the sampler."""

_PERCENT = 100.0


class Units:
    """The units that a result is wanted in, and the number of cores that were expected to be used."""

    __slots__ = ('expected_cores', 'gpu_ram', 'ram', 'time')

    def __init__(self, ram: str, gpu_ram: str, time: str, expected_cores: int | None) -> None:
        self.ram = ram
        self.gpu_ram = gpu_ram
        self.time = time
        self.expected_cores = expected_cores


def build(totals: Totals, wanted: Units) -> usage.ResourceUsage:
    """Return what the totals of a run say."""
    tracked = totals['record']['tracked_seconds']
    time = totals['seconds'] if tracked is None else tracked
    return usage.ResourceUsage(
        max_ram=_max_ram(totals, wanted.ram),
        max_gpu_ram=_max_gpu_ram(totals['gpu'], wanted.gpu_ram),
        cpu_utilization=_cpu_utilization(totals, wanted.expected_cores),
        gpu_utilization=_gpu_utilization(totals['gpu']),
        compute_time=usage.ComputeTime(unit=wanted.time, time=units.from_seconds(time, wanted.time)),
        cuda=_cuda(totals, wanted.gpu_ram),
    )


def _max_ram(totals: Totals, unit: str) -> usage.MaxRAM:
    ram = totals['ram']

    def values(group: str) -> usage.RSSValues:
        return usage.RSSValues(*(units.from_bytes(size, unit) for size in ram[group]))

    return usage.MaxRAM(
        unit=unit,
        system_capacity=units.from_bytes(totals['machine']['ram'], unit),
        system=units.from_bytes(ram['system'], unit),
        main=values('main'),
        descendants=values('descendants'),
        combined=values('combined'),
    )


def _max_gpu_ram(gpu: Totals, unit: str) -> usage.MaxGPURAM:
    return usage.MaxGPURAM(
        unit=unit,
        system_capacity=units.from_bytes(gpu['capacity'], unit),
        system=units.from_bytes(gpu['system'], unit),
        main=units.from_bytes(gpu['main'], unit),
        descendants=units.from_bytes(gpu['descendants'], unit),
        combined=units.from_bytes(gpu['combined'], unit),
    )


def _cpu_utilization(totals: Totals, expected_cores: int | None) -> usage.CPUUtilization:
    cpu = totals['cpu']
    cores = totals['machine']['cores']
    expected = expected_cores or cores

    def percentages(group: str, divisor: int | None) -> usage.ProcessingUnitPercentages:
        amount, largest = cpu[group]
        mean = amount / totals['seconds'] if amount is not None and totals['seconds'] > 0 else None
        if largest is not None and mean is not None:
            largest = max(largest, mean)
        ceiling = None if cores is None else float(cores)
        return _percentages(_limited(largest, ceiling), _limited(mean, ceiling), divisor)

    main_threads, descendants_threads, combined_threads = cpu['threads']
    return usage.CPUUtilization(
        system_core_count=cores,
        n_expected_cores=expected,
        system=percentages('system', cores),
        main=percentages('main', expected),
        descendants=percentages('descendants', expected),
        combined=percentages('combined', expected),
        main_n_threads=main_threads,
        descendants_n_threads=descendants_threads,
        combined_n_threads=combined_threads,
    )


def _gpu_utilization(gpu: Totals) -> usage.GPUUtilization:
    expected = gpu['expected']
    largest, mean = (None if percent is None else percent / _PERCENT for percent in (gpu['max_sum'], gpu['mean_sum']))
    return usage.GPUUtilization(
        system_gpu_count=gpu['count'],
        n_expected_gpus=expected,
        gpu_percentages=_percentages(largest, mean, expected or 1),
    )


def _cuda(totals: Totals, unit: str) -> CUDAUsage | None:
    """Return what CUDA was used for; None where that was not asked for."""
    told = totals.get('sections', {}).get('cuda')
    if told is None:
        return None
    from gpu_tracker.cuda_usage import cuda_usage  # noqa: PLC0415 - most runs have none

    return cuda_usage(told, unit)


def _percentages(
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


def _limited(rate: float | None, ceiling: float | None) -> float | None:
    """More than all cores cannot have been busy: what lies above is the rounding of a short span."""
    return rate if rate is None or ceiling is None else min(rate, ceiling)
