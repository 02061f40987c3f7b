"""Reports in the form of nvgpu: made for its programs, and read from its agents."""

from __future__ import annotations

import re
from itertools import zip_longest
from typing import TYPE_CHECKING

from gpu_tracker.fleet.hosts import untrusted
from gpu_tracker.fleet.hosts.host import UP
from gpu_tracker.fleet.hosts.report import (
    GpuReport,
    HostReport,
    ProcessReport,
    ReportError,
    json_object,
    objects,
    with_own_keys,
)
from gpu_tracker.gpus import constraints as free
from gpu_tracker.gpus.constraints import CLAIMED, FREE, IN_USE, IN_USE_UNSEEN, SPLIT, UNKNOWN
from gpu_tracker.gpus.table_cells import ago

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from gpu_tracker.fleet.hosts.host import HostState

_UNSEEN_OWNER = '?'
"""The user of a process that cannot be looked up; nvgpu's masters mark such a GPU red."""
_LONGEST_COMMAND = 25
_MEGA = 1e6
_JUPYTER = 'jupyter'

NOT_AVAILABLE = 'Host not available'
"""What nvgpu's masters say of a host that they cannot reach."""


def nvgpu_state(host: HostState, error: str | None, now: float) -> dict[str, object]:
    """Return a host as ``/cluster_status`` has it: its report, or an object with ``error`` where that is not of now.

    :param error: In the words of nvgpu's masters; None: as it is told to people.
    :param now: Seconds since 1970.
    """
    if host.state == UP and host.report is not None:
        return nvgpu_report(host.report, now)
    return {'error': error or host.error or NOT_AVAILABLE}


def nvgpu_report(report: HostReport, now: float) -> dict[str, object]:
    """Return what ``json.dumps`` takes: ``hostname`` and ``gpus``, a MIG device behind the GPU that it is on.

    The keys of a GPU are the nine of nvgpu 0.9.0, the ``memory`` of 0.10 in bytes, and of ours ``index`` (``0``, of a
    MIG device ``0:1``), ``uuid``, ``status`` and ``problem``. What is not known is null.

    :param now: Seconds since 1970.
    """
    gpus = []
    for gpu in report.gpus or ():
        gpus.append(_gpu_status(report, gpu, gpu.place, now))
        gpus += [_gpu_status(report, part, f'{gpu.number}:{part.number}', now) for part in gpu.mig_devices or ()]
    return {'hostname': report.hostname, 'gpus': gpus}


def _gpu_status(report: HostReport, gpu: GpuReport, index: str, now: float) -> dict[str, object]:
    processes = _computing(gpu)
    users = ','.join(process.user or _UNSEEN_OWNER for process in processes)
    if not processes and gpu.status in {free.IN_USE_UNSEEN, free.UNREADABLE}:
        users = _UNSEEN_OWNER
    return {
        'type': gpu.type,
        'is_available': _is_available(report, gpu),
        'pids': ','.join(str(process.pid) for process in processes),
        'users': users,
        'running_since': _since(gpu, processes, now),
        'utilization': _whole(gpu.utilization_percent),
        'clock_mhz': None if gpu.sm_clock_hertz is None else _whole(gpu.sm_clock_hertz / _MEGA),
        'temperature': _whole(gpu.temperature_celsius),
        'cmd': _command(processes) or _remark(gpu),
        'memory': {'total': gpu.memory_total_bytes, 'free': gpu.memory_free_bytes, 'used': gpu.memory_used_bytes},
        'index': index,
        'uuid': gpu.uuid,
        'status': gpu.status,
        'problem': gpu.problem,
    }


def _is_available(report: HostReport, gpu: GpuReport) -> bool:
    """Return whether a GPU is free by nvgpu's rule: nobody has claimed it, and its memory is not in use."""
    used = gpu.memory_used_percent
    if gpu.status not in {IN_USE, IN_USE_UNSEEN} or used is None:
        return gpu.status == FREE
    return used <= free.USED_PERCENT and gpu.claim is None and report.claims_problem is None


def _computing(gpu: GpuReport) -> Sequence[ProcessReport]:
    """Return the processes that stand in the row of a GPU: those that compute, and not on one of its MIG devices."""
    elsewhere = {process.pid for part in gpu.mig_devices or () for process in part.processes or ()}
    return [
        process for process in gpu.processes or () if process.computes is not False and process.pid not in elsewhere
    ]


def _since(gpu: GpuReport, processes: Sequence[ProcessReport], now: float) -> str | None:
    starts = [process.started for process in processes if process.started is not None]
    return ago(now - min(starts)) if starts else gpu.running_since


def _command(processes: Sequence[ProcessReport]) -> str | None:
    """Return what the first process that can be looked up is about, as short as nvgpu has it."""
    program = next((process.program for process in processes if process.program), None)
    if program is None or program == _JUPYTER or program.endswith('.py') or len(program) <= _LONGEST_COMMAND:
        return program
    return f'{program[:_LONGEST_COMMAND]}...'


def _remark(gpu: GpuReport) -> str | None:
    """Return why a GPU without processes is not available, in the only place where a master shows words."""
    if gpu.status == free.CLAIMED:
        return 'claimed' if gpu.claim is None or not gpu.claim.user else f'claimed by {gpu.claim.user}'
    return {
        free.UNREADABLE: gpu.problem,
        free.SPLIT: 'in MIG mode',
        free.UNKNOWN: 'its claims are not known',
    }.get(gpu.status)


def _whole(value: float | None) -> int | None:
    return None if value is None else round(value)


KINDS = ('free', 'in_use', 'unseen', 'unknown')
"""The best first."""

_OF_STATUS = {FREE: 'free', IN_USE: 'in_use', CLAIMED: 'in_use', IN_USE_UNSEEN: 'unseen'}


def kind_of(gpu: GpuReport, host: HostState) -> str:
    """Return one of KINDS: unknown on a host without a present reading, and else by the GPU's status.

    A GPU that is split into MIG devices is as good as the best of them.
    """
    return _by_status(gpu) if host.state == UP else 'unknown'


def _by_status(gpu: GpuReport) -> str:
    if gpu.status == SPLIT and gpu.mig_devices:
        return min((_by_status(part) for part in gpu.mig_devices), key=KINDS.index)
    return _OF_STATUS.get(gpu.status, 'unknown')


_UNSEEN = '?'
"""The user of a process that could not be looked up."""
_MEGAHERTZ = 1_000_000
_INDEX = re.compile(r'(?:([a-z_]{1,20}):)?([0-9]{1,9})(?::([0-9]{1,9}))?')
"""As our agents have it: the vendor where it is not NVIDIA, the GPU's number, and a MIG device's number on its GPU."""

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
    gpus: dict[tuple[str | None, int], GpuReport] = {}
    for row in rows:
        index = _INDEX.fullmatch(untrusted.text(row.get('index')) or '')
        vendor, number, part = (None, len(gpus), None) if index is None else (index[1], int(index[2]), index[3])
        if part is None or (vendor, number) not in gpus:
            if (vendor, number) in gpus:
                # Of two rows with one number the second has one that is free, as nvgpu's rows have none.
                number = max(taken for _, taken in gpus) + 1
            gpu = _gpu(number, row)._replace(vendor=vendor)
            gpus[vendor, number] = gpu._replace(key=f'index:{gpu.place}')
            continue
        whole = gpus[vendor, number]
        device = _gpu(int(part), row)._replace(key=f'{whole.key}/index:{part}')
        gpus[vendor, number] = whole._replace(status=SPLIT, mig_devices=(*(whole.mig_devices or ()), device))
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
