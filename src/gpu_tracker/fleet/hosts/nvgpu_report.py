"""What an agent of nvgpu, or of gpu-tracker in nvgpu's form, reports of its GPUs."""

from __future__ import annotations

import re
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
from gpu_tracker.gpus.constraints import FREE, IN_USE, IN_USE_UNSEEN, SPLIT, UNKNOWN

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

_UNSEEN = '?'
"""The user of a process that could not be looked up."""
_MEGAHERTZ = 1_000_000
_INDEX = re.compile(r'([0-9]{1,9})(?::([0-9]{1,9}))?')
"""As our agents have it: a GPU's number, and for a MIG device its number on that GPU."""

NVGPU = 'nvgpu'
"""What a report of an agent that is none of ours says of it."""


def parse_nvgpu_report(body: bytes) -> HostReport:
    """Read what an agent answers to ``/gpu_status``.

    :raises ReportError: It is something else.
    """
    answer = json_object(body)
    hostname = untrusted.text(answer.get('hostname'))
    if not hostname:
        raise ReportError('it has no hostname')
    rows = objects(answer.get('gpus'), 'gpus')
    is_ours = any('index' in row for row in rows)
    return HostReport(hostname=hostname, agent='gpu-tracker' if is_ours else NVGPU, gpus=with_own_keys(_gpus(rows)))


def _gpus(rows: Sequence[Mapping[str, object]]) -> Iterable[GpuReport]:
    """Return the GPUs, each with its MIG devices, which stand in rows of their own."""
    gpus: dict[int, GpuReport] = {}
    for row in rows:
        index = _INDEX.fullmatch(untrusted.text(row.get('index')) or '')
        number, part = (len(gpus), None) if index is None else (int(index[1]), index[2])
        if part is None or number not in gpus:
            # Of two rows with one number the second has one that is free, as nvgpu's rows have none.
            number = number if number not in gpus else max(gpus) + 1
            gpus[number] = _gpu(number, row)
            continue
        whole = gpus[number]
        device = _gpu(int(part), row)._replace(key=f'{whole.key}/index:{part}')
        gpus[number] = whole._replace(status=SPLIT, mig_devices=(*(whole.mig_devices or ()), device))
    return gpus.values()


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
        number = untrusted.whole(int(pid)) if pid.isascii() and pid.isdecimal() else None
        if number is None:
            continue
        is_seen = user not in {_UNSEEN, ''}
        processes.append(
            ProcessReport(number, user=user if is_seen else None, program=program if is_seen else None, computes=True)
        )
        if is_seen:
            program = None
    return tuple(processes)
