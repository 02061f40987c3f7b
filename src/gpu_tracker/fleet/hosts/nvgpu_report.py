"""What an agent of nvgpu, or of gpu-tracker in nvgpu's form, reports of its GPUs."""

from __future__ import annotations

from itertools import zip_longest
from typing import TYPE_CHECKING

from gpu_tracker.fleet.hosts import untrusted
from gpu_tracker.fleet.hosts.report import (
    GpuReport,
    HostReport,
    ProcessReport,
    ReportError,
    json_object,
    objects,
    with_own_keys,
)
from gpu_tracker.fleet.status import FREE, IN_USE, IN_USE_UNSEEN, UNKNOWN

if TYPE_CHECKING:
    from collections.abc import Mapping

_UNSEEN = '?'
"""The user of a process that could not be looked up."""
_MEGAHERTZ = 1_000_000


def parse_nvgpu_report(body: bytes) -> HostReport:
    """Read what an agent answers to ``/gpu_status``.

    :raises ReportError: It is something else.
    """
    answer = json_object(body)
    hostname = untrusted.text(answer.get('hostname'))
    if not hostname:
        raise ReportError('it has no hostname')
    gpus = (_gpu(number, gpu) for number, gpu in enumerate(objects(answer.get('gpus'), 'gpus')))
    return HostReport(hostname=hostname, agent='nvgpu', gpus=with_own_keys(gpus))


def _gpu(number: int, gpu: Mapping[str, object]) -> GpuReport:
    processes = _processes(gpu)
    clock = untrusted.number(gpu.get('clock_mhz'))
    memory = gpu.get('memory')
    sizes = memory if isinstance(memory, dict) else {}
    return GpuReport(
        key=f'index:{number}',
        number=number,
        type=untrusted.text(gpu.get('type')),
        status=_status(gpu.get('is_available'), processes),
        utilization_percent=untrusted.number(gpu.get('utilization'), most=100),
        memory_total_bytes=untrusted.whole(sizes.get('total')),
        memory_used_bytes=untrusted.whole(sizes.get('used')),
        memory_free_bytes=untrusted.whole(sizes.get('free')),
        temperature_celsius=untrusted.number(gpu.get('temperature'), -300, 1000),
        sm_clock_hertz=None if clock is None else round(clock * _MEGAHERTZ),
        processes=processes,
        running_since=untrusted.text(gpu.get('running_since')),
    )


def _status(is_available: object, processes: tuple[ProcessReport, ...]) -> str:
    if not isinstance(is_available, bool):
        return UNKNOWN
    if is_available:
        return FREE
    return IN_USE if any(process.user is not None for process in processes) else IN_USE_UNSEEN


def _processes(gpu: Mapping[str, object]) -> tuple[ProcessReport, ...]:
    """Return the processes; the one command that is told is that of the first which could be looked up."""
    pids = (untrusted.text(gpu.get('pids'), untrusted.LONGEST_COMMAND) or '').split(',')
    users = (untrusted.text(gpu.get('users'), untrusted.LONGEST_COMMAND) or '').split(',')
    program = untrusted.text(gpu.get('cmd'))
    processes = []
    for pid, user in zip_longest(pids, users, fillvalue=_UNSEEN):
        if not (pid.isascii() and pid.isdecimal()):
            continue
        is_seen = user not in {_UNSEEN, ''}
        processes.append(
            ProcessReport(int(pid), user=user if is_seen else None, program=program if is_seen else None, computes=True)
        )
        if is_seen:
            program = None
    return tuple(processes)
