"""The state of one host, with the times that it reports by its own clock brought to this machine's."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from gpu_tracker.fleet.hosts import untrusted
from gpu_tracker.gpus.constraints import CLAIMED, IN_USE, IN_USE_UNSEEN
from gpu_tracker.gpus.health import findings, health_as_json

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gpu_tracker.fleet.hosts.report import ClaimReport, GpuReport, HostReport, ProcessReport
    from gpu_tracker.fleet.hosts.running_jobs import RunningJob

_TOLERANCE = 2.0
"""Seconds: an answer may be as long under way, and what is seen of a process shall not change with each."""
_MOST = 1e10
"""Seconds, some 300 years: no clock is that wrong, and sums beyond all numbers cannot be sent to a browser."""


def error_of(report: HostReport, now: float, known: float) -> float:
    """Return by how many seconds a host's clock is behind this machine's, which is negative where it is ahead.

    :param now: Seconds since 1970 by this machine's clock, when the report came in.
    :param known: What was returned for the report before, 0 at first; it stays so where it is about right.
    """
    if report.time is None or report.age is None:
        return known
    error = now - report.age - report.time
    return float(round(error)) if abs(error - known) > _TOLERANCE and abs(error) < _MOST else known


def corrected(report: HostReport, error: float) -> HostReport:
    """Return a report whose processes, claims and jobs have moments by this machine's clock."""
    if not error:
        return report
    return report._replace(
        gpus=None if report.gpus is None else tuple(_gpu(gpu, error) for gpu in report.gpus),
        jobs=None if report.jobs is None else tuple(_job(job, error) for job in report.jobs),
    )


def _gpu(gpu: GpuReport, error: float) -> GpuReport:
    return gpu._replace(
        processes=None if gpu.processes is None else tuple(_process(process, error) for process in gpu.processes),
        claim=None if gpu.claim is None else _claim(gpu.claim, error),
        mig_devices=None if gpu.mig_devices is None else tuple(_gpu(part, error) for part in gpu.mig_devices),
    )


def _process(process: ProcessReport, error: float) -> ProcessReport:
    return process._replace(started=_moment(process.started, error))


def _claim(claim: ClaimReport, error: float) -> ClaimReport:
    return claim._replace(made=_moment(claim.made, error), expires=_moment(claim.expires, error))


def _job(job: RunningJob, error: float) -> RunningJob:
    return job._replace(started=_moment(job.started, error), updated=_moment(job.updated, error))


def _moment(told: float | None, error: float) -> float | None:
    return None if told is None else untrusted.number(told + error)


_HELD = frozenset({IN_USE, IN_USE_UNSEEN, CLAIMED})
_IDLE_BELOW = 1.0
"""Percent of utilization, as in the alert GpuHeldIdle."""


def _with_idle_since(report: HostReport, before: HostReport | None, now: float) -> HostReport:
    """Return a report in which GPUs that are held and idle have the moment since when they are.

    :param before: The host's last report; None: there is none, or the host was not up since.
    """
    if not any(map(_is_held_idle, report.gpus or ())):
        return report
    known = {gpu.key: gpu.idle_since for gpu in (before and before.gpus) or ()}
    gpus = (
        gpu._replace(idle_since=known.get(gpu.key) or now) if _is_held_idle(gpu) else gpu for gpu in report.gpus or ()
    )
    return report._replace(gpus=tuple(gpus))


def _is_held_idle(gpu: GpuReport) -> bool:
    return gpu.status in _HELD and gpu.utilization_percent is not None and gpu.utilization_percent < _IDLE_BELOW


Key = TypeVar('Key')


class Known(NamedTuple):
    """What is known of a host that is to be called something."""

    name: str | None
    """What somebody has called it, else as it calls itself; None: neither is known."""
    place: str
    """Host and port where its agent is."""


def names(hosts: Mapping[Key, Known]) -> dict[Key, str]:
    """Return what to call each host: its name, with its place behind where others have that name too.

    A host whose name is not known goes by its place.
    """
    counts = Counter(host.name for host in hosts.values())
    return {key: _called(host, is_shared=counts[host.name] > 1) for key, host in hosts.items()}


def _called(host: Known, *, is_shared: bool) -> str:
    if host.name is None:
        return host.place
    return f'{host.name} ({host.place})' if is_shared else host.name


WAITING = 'waiting'
"""It has not answered yet, and nothing has gone wrong."""
UP = 'up'
STALE = 'stale'
"""It answers, and what it says is old or not known."""
DOWN = 'down'

_LEAST_STALE_AGE = 10.0
_MISSED_READINGS = 3


class HostState(NamedTuple):
    """A host of the fleet."""

    id: str
    """Stays the same as long as the dashboard runs."""
    name: str
    group: str | None = None
    state: str = WAITING
    error: str | None = None
    """Why it is down or stale, for people."""
    last_seen: float | None = None
    """Seconds since 1970, of the last report with figures; None: there was none."""
    report: HostReport | None = None
    """The last one that had figures, kept while the host is down."""
    url: str | None = None
    """Scheme, host and port where its agent is asked; None: it is this machine, or Prometheus asks it."""
    clock_error: float = 0.0
    """Seconds that its clock is behind this machine's, as far as that is known."""

    def reported(self, report: HostReport, now: float) -> HostState:
        """Return the host as it is with a new report: up, or stale where its driver has not told anything lately.

        :param report: As the host reports it; what is kept of it has its moments by this machine's clock.
        :param now: Seconds since 1970.
        """
        host = self._replace(clock_error=error_of(report, now, self.clock_error))
        report = corrected(report, host.clock_error)
        problem = _staleness(report)
        if problem is None:
            report = _with_idle_since(report, self.report if self.state == UP else None, now)
            return host._replace(state=UP, error=None, last_seen=now, report=report)
        if report.gpus is None:
            kept = (self.report or report)._replace(jobs=report.jobs, jobs_problem=report.jobs_problem)
            return host._replace(state=STALE, error=problem, report=kept)
        return host._replace(state=STALE, error=problem, last_seen=now - (report.age or 0), report=report)

    def failed(self, error: str) -> HostState:
        """Return the host as it is when it could not be asked; what it has reported last is kept."""
        return self._replace(state=DOWN, error=error)


def stale_age(interval: float | None) -> float:
    """Return the seconds from which a reading is old.

    :param interval: Seconds between two readings; None: unknown.
    """
    return max(_LEAST_STALE_AGE, _MISSED_READINGS * (interval or 0.0))


def _staleness(report: HostReport) -> str | None:
    """Return why the figures of a report are not those of now; None where they are."""
    if report.gpus is None:
        return report.driver_problem or 'it does not know its GPUs'
    if report.age is not None and report.age > stale_age(report.interval):
        return f'its GPUs have not been read for {report.age:.0f} s'
    return None


def host_as_json(host: HostState) -> dict[str, object]:
    """Return what ``json.dumps`` takes; ``last_seen`` is null while the host is up, since that changes all the time.

    ``jobs`` and ``jobs_problem`` are there where the host reads job folders.
    """
    report = host.report
    of_jobs = {}
    if report is not None and report.jobs is not None:
        of_jobs = {'jobs': [job._asdict() for job in report.jobs], 'jobs_problem': report.jobs_problem}
    return {
        'id': host.id,
        'name': host.name,
        'group': host.group,
        'url': host.url,
        'state': host.state,
        'error': host.error,
        'last_seen': None if host.state == UP else host.last_seen,
        'hostname': None if report is None else report.hostname,
        'agent': None if report is None else report.agent,
        'driver_problem': None if report is None else report.driver_problem,
        'claims_problem': None if report is None else report.claims_problem,
        'gpus': None if report is None or report.gpus is None else [_gpu_as_json(gpu) for gpu in report.gpus],
        **of_jobs,
    }


def _gpu_as_json(gpu: GpuReport) -> dict[str, object]:
    fields = gpu._asdict()
    del fields['activity']  # no page shows it
    fields['index'] = fields.pop('number')
    fields['processes'] = None if gpu.processes is None else [process._asdict() for process in gpu.processes]
    fields['health'] = None if gpu.health is None else {**health_as_json(gpu.health), 'findings': findings(gpu.health)}
    fields['claim'] = None if gpu.claim is None else gpu.claim._asdict()
    fields['mig_devices'] = None if gpu.mig_devices is None else [_gpu_as_json(part) for part in gpu.mig_devices]
    return fields
