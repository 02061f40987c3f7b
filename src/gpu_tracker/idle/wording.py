"""Lengths of time, ends of programs and what they have used, in words. Pure.

The guardian imports this, so it imports little.
"""

from __future__ import annotations

import time

from gpu_tracker.system.terminal_text import printable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

_MINUTE = 60
_HOUR = 60 * _MINUTE
_DAY = 24 * _HOUR


def duration(seconds: float) -> str:
    """Return a length of time in words, in its two largest units: ``12 s``, ``3 min``, ``2 h 5 min``, ``3 d 4 h``."""
    whole = max(int(seconds), 0)  # a clock that was set back makes no sense of a difference
    if whole < _MINUTE:
        return f'{whole} s'
    if whole < _HOUR:
        return f'{whole // _MINUTE} min'
    if whole < _DAY:
        return _both(whole // _HOUR, 'h', whole % _HOUR // _MINUTE, 'min')
    return _both(whole // _DAY, 'd', whole % _DAY // _HOUR, 'h')


def _both(large: int, large_unit: str, small: int, small_unit: str) -> str:
    return f'{large} {large_unit} {small} {small_unit}' if small else f'{large} {large_unit}'


_TENTHS_BELOW = 10
_UNKNOWN = 'N/A'
_SIZES = ((1e12, 'TB'), (1e9, 'GB'), (1e6, 'MB'), (1e3, 'kB'))


def line_at(seconds: float, text: str) -> str:
    """Return a line of a log: ``2026-11-21 23:01:02 gpu-tracker: ...``, in local time.

    :param seconds: Seconds since 1970.
    """
    return f'{time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(seconds))} gpu-tracker: {printable(text)}\n'


def ending_in_words(code: int | None, number: int | None, left_behind: int = 0) -> str:
    """Return how a program has ended, such as ``exit code 1``, or ``killed by SIGTERM``, and what came after.

    :param code: Its exit code, None where a signal has ended it.
    :param number: That signal.
    :param left_behind: How many processes it had left behind.
    """
    if not left_behind:
        return _code_or_signal(code, number)
    processes, were = ('process', 'was') if left_behind == 1 else ('processes', 'were')
    return f'{_code_or_signal(code, number)}; {left_behind} {processes} that it had left behind {were} ended'


def _code_or_signal(code: int | None, number: int | None) -> str:
    if number is None:
        return f'exit code {_UNKNOWN if code is None else code}'
    import signal  # noqa: PLC0415 - not where there is none

    try:
        return f'killed by {signal.Signals(number).name}'
    except ValueError:
        return f'killed by signal {number}'  # a real-time one


def usage_in_words(seconds: float, gpus: int, usage: Mapping[str, float | None]) -> str:
    """Return what a program has used, such as ``2.9 GPU hours, RAM 3.1 GB at most, CPU 2 h 30 min``.

    :param seconds: For how long it ran.
    :param gpus: On how many GPUs.
    :param usage: ``max_ram_bytes``, ``cpu_seconds``, ``max_gpu_ram_bytes`` and ``gpu_utilization_percent`` (the mean
        over its GPUs), each None where unknown.
    """
    hours = seconds * gpus / _HOUR
    percent = usage['gpu_utilization_percent']
    return ', '.join(
        (
            f'{hours:.1f} GPU hours' if hours >= 1 else f'{hours:.4f} GPU hours',
            f'GPU utilization {_UNKNOWN if percent is None else f"{percent:.0f} %"}',
            f'GPU RAM {_at_most(usage["max_gpu_ram_bytes"])}',
            f'RAM {_at_most(usage["max_ram_bytes"])}',
            f'CPU {duration_in_words(usage["cpu_seconds"])}',
        )
    )


def duration_in_words(seconds: float | None) -> str:
    """Return a time such as ``0.4 s``, ``12 s``, ``5 min 3 s``, ``3 h 2 min`` or ``2 d 3 h``."""
    if seconds is None:
        return _UNKNOWN
    if round(seconds, 1) < _TENTHS_BELOW:
        return f'{seconds:.1f} s'
    whole = round(seconds)
    if whole < _MINUTE:
        return f'{whole} s'
    if whole < _HOUR:
        return f'{whole // _MINUTE} min {whole % _MINUTE} s'
    if whole < _DAY:
        return f'{whole // _HOUR} h {whole % _HOUR // _MINUTE} min'
    return f'{whole // _DAY} d {whole % _DAY // _HOUR} h'


def _at_most(size: float | None) -> str:
    if size is None:
        return _UNKNOWN
    for unit, name in _SIZES:
        if size >= unit:
            return f'{size / unit:.1f} {name} at most'
    return f'{size:.0f} B at most'
