"""A host's GPUs in the form in which nvgpu's agents tell them: what its masters read."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpu_tracker.fleet.hosts.host import UP
from gpu_tracker.gpus import constraints as status
from gpu_tracker.gpus.table_cells import ago

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gpu_tracker.fleet.hosts.host import HostState
    from gpu_tracker.fleet.hosts.report import GpuReport, HostReport, ProcessReport

_UNSEEN = '?'
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
        gpus.append(_gpu(gpu, str(gpu.number), now))
        gpus += [_gpu(part, f'{gpu.number}:{part.number}', now) for part in gpu.mig_devices or ()]
    return {'hostname': report.hostname, 'gpus': gpus}


def _gpu(gpu: GpuReport, index: str, now: float) -> dict[str, object]:
    processes = _computing(gpu)
    users = ','.join(process.user or _UNSEEN for process in processes)
    if not processes and gpu.status in {status.IN_USE_UNSEEN, status.UNREADABLE}:
        users = _UNSEEN
    return {
        'type': gpu.type,
        # In nvgpu's own words no process computes on it. Here it is what `gpu-tracker available` would give: there is
        # one definition of a free GPU. By the other a claimed GPU would be shown as free, and one that a process of
        # another container fills; while the few megabytes that a debugger leaves on a GPU would keep it from all.
        'is_available': gpu.status == status.FREE,
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
    if gpu.status == status.CLAIMED:
        return 'claimed' if gpu.claim is None or not gpu.claim.user else f'claimed by {gpu.claim.user}'
    return {
        status.UNREADABLE: gpu.problem,
        status.SPLIT: 'in MIG mode',
        status.UNKNOWN: 'its claims are not known',
    }.get(gpu.status)


def _whole(value: float | None) -> int | None:
    return None if value is None else round(value)
