"""What a host reports of its GPUs, read from the JSON of an agent that need not be honest."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from gpu_tracker.errors import GpuTrackerError
from gpu_tracker.fleet.hosts import untrusted
from gpu_tracker.fleet.hosts.running_jobs import RunningJob, parse_jobs
from gpu_tracker.fleet.hosts.untrusted import has_more_parts
from gpu_tracker.gpus.constraints import CLAIMED, FREE, IN_USE, IN_USE_UNSEEN, SPLIT, UNKNOWN, UNREADABLE
from gpu_tracker.gpus.model import THROTTLE_REASONS, GpuActivity, GpuHealth
from gpu_tracker.vendors import numbered

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

Part = TypeVar('Part')

STATUSES = (FREE, IN_USE, IN_USE_UNSEEN, CLAIMED, UNKNOWN, SPLIT, UNREADABLE)

VENDOR = re.compile('[a-z_]{1,20}')
_XID = re.compile(r'[0-9]{1,4}', re.ASCII)
_LONGEST_NAME = 200
_MOST_OBJECTS = 20_000
"""GPUs, processes and claims: what a host may make this process work through."""
_MOST_PARTS = 400_000
"""Texts, commas and brackets: 20 for each object. More are not even parsed, since all else would wait for that."""
_MOST_GPUS = 256
"""MIG devices of one GPU are counted by themselves."""


class ReportError(GpuTrackerError):
    """An answer is no report; the text says what it is instead."""


class ProcessReport(NamedTuple):
    """A process on a GPU; None is unknown."""

    pid: int | None
    """None: all that is told of it is whose it is."""
    user: str | None = None
    command: str | None = None
    """The whole command line."""
    program: str | None = None
    """What the command line is about."""
    started: float | None = None
    """Seconds since 1970."""
    memory_bytes: int | None = None
    computes: bool | None = None
    """False: it only draws."""
    utilization_percent: float | None = None
    """Of the time since the reading before."""


class ClaimReport(NamedTuple):
    """A claim on a GPU; None is unknown."""

    user: str | None = None
    user_id: int | None = None
    pid: int | None = None
    in_another_container: bool | None = None
    made: float | None = None
    """Seconds since 1970."""
    expires: float | None = None
    """Seconds since 1970; None as well where it ends with its process."""
    command: str | None = None


class GpuReport(NamedTuple):
    """A GPU, or a MIG device of one; names and units are those of :mod:`gpu_tracker.gpus.machine`."""

    key: str
    """Unique on its host, and the same from report to report: the UUID, or the index where that is unknown."""
    number: int | None = None
    """``index`` in JSON."""
    vendor: str | None = None
    uuid: str | None = None
    pci_bus_id: str | None = None
    type: str | None = None
    status: str = UNKNOWN
    problem: str | None = None
    utilization_percent: float | None = None
    memory_total_bytes: int | None = None
    memory_used_bytes: int | None = None
    memory_free_bytes: int | None = None
    temperature_celsius: float | None = None
    sm_clock_hertz: int | None = None
    power_watts: float | None = None
    power_limit_watts: float | None = None
    health: GpuHealth | None = None
    activity: GpuActivity | None = None
    processes: tuple[ProcessReport, ...] | None = None
    claim: ClaimReport | None = None
    mig_devices: tuple[GpuReport, ...] | None = None
    running_since: str | None = None
    """For how long it is in use, in words, which is all that nvgpu reports."""
    idle_since: float | None = None
    """Seconds since 1970, of the first report since when it has been held with less than 1 % of utilization; None: it
    is not held, busy, or its utilization is not known."""

    @property
    def place(self) -> str:
        """What names a whole GPU on its host: ``0``, of other vendors than NVIDIA ``amd:0``."""
        return numbered(self.vendor or '', str(self.number))

    @property
    def memory_used_percent(self) -> float | None:
        """Percent of the memory that is in use."""
        if self.memory_used_bytes is None or not self.memory_total_bytes:
            return None
        return min(100.0, 100.0 * self.memory_used_bytes / self.memory_total_bytes)


class HostReport(NamedTuple):
    """All GPUs of a host at one moment."""

    hostname: str
    agent: str
    """What has reported it: ``gpu-tracker 6.0.0``, ``nvgpu``, ``prometheus``."""
    gpus: tuple[GpuReport, ...] | None
    """None: not known, and ``driver_problem`` says why."""
    driver_problem: str | None = None
    claims_problem: str | None = None
    age: float | None = None
    """Seconds that the reading was old when it was reported; None: not reported."""
    interval: float | None = None
    """Seconds between two readings; None: not reported."""
    time: float | None = None
    """When the reading was taken, in seconds since 1970 by the host's clock; None: not reported."""
    jobs: tuple[RunningJob, ...] | None = None
    """The jobs of which it runs ranks; None: it reads no job folders."""
    jobs_problem: str | None = None


def parse_report(body: bytes) -> HostReport:
    """Read what an agent of gpu-tracker answers to ``/api/v1/host``.

    :raises ReportError: It is something else.
    """
    answer = json_object(body)
    hostname = untrusted.text(answer.get('hostname'), _LONGEST_NAME)
    if not hostname:
        raise ReportError('the answer has no hostname')
    listed = answer.get('gpus')
    driver_problem = untrusted.text(answer.get('driver_problem'))
    if listed is None and driver_problem is None:
        raise ReportError('the answer has neither gpus nor driver_problem')
    version = untrusted.text(answer.get('agent_version'), _LONGEST_NAME)
    return HostReport(
        hostname=hostname,
        agent=f'gpu-tracker {version}' if version else 'gpu-tracker',
        gpus=None if listed is None else with_own_keys(_gpu(gpu) for gpu in objects(listed, 'gpus')),
        driver_problem=driver_problem,
        claims_problem=untrusted.text(answer.get('claims_problem')),
        age=untrusted.number(answer.get('age_seconds')),
        interval=untrusted.number(answer.get('interval_seconds')),
        time=untrusted.number(answer.get('time')),
        jobs=parse_jobs(answer.get('jobs')),
        jobs_problem=untrusted.text(answer.get('jobs_problem')),
    )


def json_object(body: bytes) -> Mapping[str, object]:
    """Return the JSON object that an answer consists of.

    :raises ReportError: It is something else.
    """
    if has_more_parts(body, _MOST_PARTS):
        raise ReportError(f'the answer has more than {_MOST_PARTS} texts, commas and brackets')
    objects_left = _MOST_OBJECTS

    def counted(found: dict[str, object]) -> dict[str, object]:
        nonlocal objects_left
        objects_left -= 1
        if objects_left < 0:
            raise ReportError(f'the answer has more than {_MOST_OBJECTS} objects')
        return found

    try:
        answer = json.loads(body, object_hook=counted)
    except (ValueError, RecursionError):  # not JSON or not UTF-8, numbers of thousands of digits, absurd nesting
        raise ReportError('the answer is not JSON') from None
    if not isinstance(answer, dict):
        raise ReportError('the answer is not a JSON object')
    return answer


def objects(value: object, name: str) -> Sequence[Mapping[str, object]]:
    """Return a list of objects.

    :raises ReportError: It is something else.
    """
    if not isinstance(value, list) or not all(isinstance(entry, dict) for entry in value):
        raise ReportError(f'{name} is not a list of objects')
    if name in {'gpus', 'mig_devices'} and len(value) > _MOST_GPUS:
        raise ReportError(f'{name} has more than {_MOST_GPUS} entries')
    return value


def with_own_keys(gpus: Iterable[GpuReport]) -> tuple[GpuReport, ...]:
    """Return the GPUs of a host and their MIG devices, each with a key that no other of them has."""
    taken: set[str] = set()
    counts: dict[str, int] = {}

    def distinct(gpu: GpuReport) -> GpuReport:
        key = gpu.key
        while key in taken:
            counts[gpu.key] = counts.get(gpu.key, 1) + 1  # not counted anew for each of thousands that are alike
            key = f'{gpu.key} ({counts[gpu.key]})'
        taken.add(key)
        parts = gpu.mig_devices
        return gpu._replace(key=key, mig_devices=None if parts is None else tuple(distinct(part) for part in parts))

    return tuple(distinct(gpu) for gpu in gpus)


def vendor_of(name: object) -> str | None:
    """Return what a stranger calls a vendor; None where it is no name of one."""
    return name if isinstance(name, str) and VENDOR.fullmatch(name) else None


def _gpu(gpu: Mapping[str, object], parent: str = '') -> GpuReport:
    number = untrusted.whole(gpu.get('index'))
    uuid = untrusted.text(gpu.get('uuid'), _LONGEST_NAME)
    vendor = vendor_of(gpu.get('vendor'))
    key = uuid or f'{parent}index:{numbered(vendor or "", "?" if number is None else str(number))}'
    status = gpu.get('status')
    claim, parts = gpu.get('claim'), gpu.get('mig_devices')
    health, activity = gpu.get('health'), gpu.get('activity')
    return GpuReport(
        key=key,
        number=number,
        vendor=vendor,
        uuid=uuid,
        pci_bus_id=untrusted.text(gpu.get('pci_bus_id'), _LONGEST_NAME),
        type=untrusted.text(gpu.get('type'), _LONGEST_NAME),
        status=status if isinstance(status, str) and status in STATUSES else UNKNOWN,
        problem=untrusted.text(gpu.get('problem')),
        utilization_percent=untrusted.number(gpu.get('utilization_percent'), most=100),
        memory_total_bytes=untrusted.whole(gpu.get('memory_total_bytes')),
        memory_used_bytes=untrusted.whole(gpu.get('memory_used_bytes')),
        memory_free_bytes=untrusted.whole(gpu.get('memory_free_bytes')),
        temperature_celsius=untrusted.number(gpu.get('temperature_celsius'), -300, 1000),
        sm_clock_hertz=untrusted.whole(gpu.get('sm_clock_hertz')),
        power_watts=untrusted.number(gpu.get('power_watts')),
        power_limit_watts=untrusted.number(gpu.get('power_limit_watts')),
        health=_health(health) if isinstance(health, dict) and not parent else None,
        activity=_activity(activity) if isinstance(activity, dict) else None,
        processes=_list(gpu.get('processes'), 'processes', _process),
        claim=_claim(claim) if isinstance(claim, dict) else None,
        mig_devices=None
        if parts is None or parent
        else _list(parts, 'mig_devices', lambda part: _gpu(part, f'{key}/')),
    )


def _health(health: Mapping[str, object]) -> GpuHealth:
    errors, reasons = health.get('xid_errors'), health.get('throttle_reasons')
    known: dict[str, Any] = {name: untrusted.whole(health.get(name)) for name in GpuHealth._fields}
    return GpuHealth(
        **known
        | {name: untrusted.flag(health.get(name)) for name in ('row_remap_pending', 'row_remap_failed')}
        | {
            'xid_errors': _xid_errors(errors) if isinstance(errors, dict) else None,
            'throttle_reasons': tuple(reason for reason in THROTTLE_REASONS if reason in reasons)
            if isinstance(reasons, list)
            else None,
            'energy_joules': untrusted.number(health.get('energy_joules')),
        }
    )


def _activity(activity: Mapping[str, object]) -> GpuActivity:
    return GpuActivity(
        sm=untrusted.number(activity.get('sm_percent')),
        occupancy=untrusted.number(activity.get('occupancy_percent')),
        tensor=untrusted.number(activity.get('tensor_percent')),
        dram=untrusted.number(activity.get('dram_percent')),
    )


def _xid_errors(errors: Mapping[str, object]) -> tuple[tuple[int, int], ...]:
    """Return the counts by code; what is no code or no count is left out."""
    counts = ((code, untrusted.whole(count)) for code, count in errors.items() if _XID.fullmatch(code))
    return tuple(sorted((int(code), count) for code, count in counts if count is not None))


def _process(process: Mapping[str, object]) -> ProcessReport:
    pid = untrusted.whole(process.get('pid'))
    if pid is None:
        raise ReportError('a process has no pid')
    return ProcessReport(
        pid=pid,
        user=untrusted.text(process.get('user'), _LONGEST_NAME),
        command=untrusted.text(process.get('command'), untrusted.LONGEST_COMMAND),
        program=untrusted.text(process.get('program')),
        started=untrusted.number(process.get('started')),
        memory_bytes=untrusted.whole(process.get('memory_bytes')),
        utilization_percent=untrusted.number(process.get('utilization_percent'), most=100),
        computes=untrusted.flag(process.get('computes')),
    )


def _claim(claim: Mapping[str, object]) -> ClaimReport:
    return ClaimReport(
        user=untrusted.text(claim.get('user'), _LONGEST_NAME),
        user_id=untrusted.whole(claim.get('user_id')),
        pid=untrusted.whole(claim.get('pid')),
        in_another_container=untrusted.flag(claim.get('in_another_container')),
        made=untrusted.number(claim.get('made')),
        expires=untrusted.number(claim.get('expires')),
        command=untrusted.text(claim.get('command'), untrusted.LONGEST_COMMAND),
    )


def _list(value: object, name: str, read: Callable[[Mapping[str, object]], Part]) -> tuple[Part, ...] | None:
    return None if value is None else tuple(read(entry) for entry in objects(value, name))
