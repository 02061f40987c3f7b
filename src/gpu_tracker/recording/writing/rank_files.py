"""What one rank of a job writes into the folder of the job, which all its nodes share.

Each rank has files of its own, which are written whole and renamed: nobody reads half of one, and no rank waits for
another. There are no locks, which network file systems often lack. ``NAME`` is made of rank, node, process and some
random digits:

- ``NAME.start.json`` is there before the command starts, ``NAME.json`` while it runs and at its end. Both have the same
  keys, see :func:`about_rank` and :meth:`RankFiles.text`; in the first there are no figures yet.
- ``NAME.db`` is the recording. While the run goes on it is ``.NAME.partial.db``.

The keys of version 1 never change meaning.
"""

from __future__ import annotations

import re

from gpu_tracker.job import host_name
from gpu_tracker.real import os, time
from gpu_tracker.recording.schema import as_json
from gpu_tracker.system import files
from gpu_tracker.system.kernel import boot_id, pid_namespace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from gpu_tracker.totals import Totals

FORMAT = 'gpu_tracker_job_record'
"""The key by which a record is recognised."""
VERSION = 1
"""Its value."""
START = '.start.json'
REPORT = '.json'
RECORDING = '.db'
PARTIAL = '.partial.db'
"""The endings of the files."""

UNMEASURED = 'unmeasured'
"""``ended`` of a run that no sampler could be started for; how it has ended is not known."""

_INTERVAL = 10.0
"""Seconds between two reports of a rank while it runs."""
LONGEST_INTERVAL = 3600.0
"""The most of them, whatever a launcher says of the size of its job."""
_REPORTS_A_SECOND = 100
"""Of all ranks of a job together, which one file system serves."""
_UNSAFE = re.compile(r'[^A-Za-z0-9._-]')
_LONGEST_NODE = 64


class RankFiles:
    """The files of one rank.

    :param folder: The job's folder, an absolute path.
    :param name: What the names of all its files begin with.
    :ivar start: The path of the start record.
    :ivar report: That of the report.
    :ivar recording: That of the complete recording.
    :ivar partial: That of the recording while the run goes on.
    """

    def __init__(self, folder: str, name: str) -> None:
        self.folder = folder
        self.name = name
        self.start = os.path.join(folder, name + START)
        self.report = os.path.join(folder, name + REPORT)
        self.recording = os.path.join(folder, name + RECORDING)
        self.partial = os.path.join(folder, f'.{name}{PARTIAL}')

    def begin(self, about: Mapping[str, Any]) -> None:
        """Write the start record.

        :raises OSError: where that fails.
        """
        files.write_whole(self.start, as_json({**about, 'updated_unix': time.time(), 'totals': None}) + '\n')

    def write(
        self,
        about: Mapping[str, Any],
        totals: Totals | Mapping[str, Any] | None,
        ended: str | None = None,
        exit_code: int | None = None,
    ) -> None:
        """Write the report.

        :param about: What :func:`about_rank` has returned.
        :param totals: What was used so far, in base units; None: nothing was measured.
        :param ended: See :data:`gpu_tracker.recording.schema.STOPPED`, or :data:`UNMEASURED`; None: the run goes on.
        :param exit_code: That of the command, -n where signal n has ended it; None: unknown, or there was none.
        :raises OSError: where that fails; the report is as it was.
        """
        record = {**about, 'updated_unix': time.time(), 'ended': ended, 'exit_code': exit_code, 'totals': totals}
        files.write_whole(self.report, as_json(record) + '\n')

    def complete_recording(self) -> None:
        """Give the recording its name, which says that it is complete; nothing where it has that already."""
        try:
            os.rename(self.partial, self.recording)
        except OSError:
            pass  # it has it, or there is none; a reader takes the other name as well

    def discard(self) -> None:
        """Remove what was written: there was no run."""
        for path in (self.start, self.report, self.partial, f'{self.partial}-journal'):
            try:
                os.unlink(path)
            except OSError:
                pass  # it was not written


def new_files(folder: str, identity: Mapping[str, Any] | None) -> RankFiles:
    """Return the files of a rank that begins now, whose name no other run has.

    :param folder: The job's folder, which is made where it is missing.
    :param identity: See :func:`gpu_tracker.job.identify`.
    :raises OSError: where it cannot be made.
    """
    os.makedirs(folder, exist_ok=True)
    rank = None if identity is None else identity['rank']
    node = _UNSAFE.sub('_', str((identity or {}).get('node') or host_name() or 'unknown'))[:_LONGEST_NODE]
    first = 'process' if rank is None else f'rank-{rank:04d}'
    return RankFiles(folder, f'{first}-{node}-{os.getpid()}-{os.urandom(4).hex()}')


def about_rank(
    names: RankFiles,
    *,
    program: str,
    identity: Mapping[str, Any] | None,
    asked: Mapping[str, int | None],
    pid: int,
    command: Sequence[str] | None,
    interval: float,
    units: Sequence[Any],
    sections: Sequence[str],
) -> dict[str, Any]:
    """Return the keys of a rank's record, before it runs.

    - ``program``: "gpu-tracker" and its version.
    - ``job``: job and rank, a :class:`~gpu_tracker.JobIdentity`; or null.
    - ``host``, ``machine``: name and boot ID of the machine.
    - ``pid``, ``command``, ``folder``: the tracked process.
    - ``tracker_pid``, ``pid_namespace``: the process of gpu-tracker that writes the record.
    - ``started_unix``: start of the rank, in seconds since 1970.
    - ``ended``, ``exit_code``: null until the rank ends.
    - ``cores``, ``cpus``: number of cores of the machine, and the cores that the rank may use.
    - ``asked``: what the job was allotted on the node.
    - ``interval``, ``write_interval``: seconds between two samples, and between two updates of the record.
    - ``units``, ``sections``: the same as in :class:`.Meta`.
    - ``recording``: file name of the recording.
    """
    return {
        FORMAT: VERSION,
        'program': program,
        'job': None if identity is None else dict(identity),
        'host': host_name(),
        'machine': boot_id(),
        'pid': pid,
        'tracker_pid': os.getpid(),
        'pid_namespace': pid_namespace(),
        'command': None if command is None else [_printable(word) for word in command],
        'folder': _folder(),
        'started_unix': time.time(),
        'ended': None,
        'exit_code': None,
        'cores': os.cpu_count(),
        'cpus': _usable_cpus(pid),
        'asked': dict(asked),
        'interval': interval,
        'write_interval': write_interval(None if identity is None else identity['size']),
        'units': list(units),
        'sections': list(sections),
        'recording': names.name + RECORDING,
    }


def write_interval(size: int | None) -> float:
    """Return the seconds between two reports of one rank of a job with ``size`` ranks."""
    return min(max(_INTERVAL, (size or 1) / _REPORTS_A_SECOND), LONGEST_INTERVAL)


def _printable(text: str) -> str:
    return text.encode(errors='surrogateescape').decode(errors='replace')


def _folder() -> str | None:
    try:
        return _printable(os.getcwd())
    except OSError:
        return None  # it was removed


def _usable_cpus(pid: int) -> str | None:
    """Return the CPUs that a process may use as a list of ranges, such as ``0-3,8``."""
    if not hasattr(os, 'sched_getaffinity'):
        return None
    ranges: list[list[int]] = []
    try:
        cpus = os.sched_getaffinity(pid)
    except OSError:
        return None  # it has ended
    for cpu in sorted(cpus):
        if ranges and ranges[-1][1] == cpu - 1:
            ranges[-1][1] = cpu
        else:
            ranges.append([cpu, cpu])
    return ','.join(str(first) if first == last else f'{first}-{last}' for first, last in ranges)
