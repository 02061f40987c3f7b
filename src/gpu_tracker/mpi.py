"""MPI: a tracker of all ranks of a program. Rank 0 receives the results as MPI messages.

Only a tracker imports ``mpi4py``, because that starts MPI.
"""

from __future__ import annotations

import atexit
import json
import os
import sys
import time
from dataclasses import asdict
from itertools import count
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from gpu_tracker import tracker
from gpu_tracker.errors import GpuTrackerError, MissingPackageError
from gpu_tracker.job import asked_of_node, host_name, identify
from gpu_tracker.jobs.merging import merge
from gpu_tracker.jobs.records import read_record
from gpu_tracker.recording.reading.region_rows import RegionCall
from gpu_tracker.recording.schema import STOPPED
from gpu_tracker.recording.writing.rank_files import UNMEASURED, RankFiles, about_rank
from gpu_tracker.result.usage import JobIdentity
from gpu_tracker.version import __version__

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from types import TracebackType

    from mpi4py.MPI import Comm, Request

    from gpu_tracker.jobs.job_report import JobReport
    from gpu_tracker.recording.reading.model import Region

_MOST_CALLS = 2000
"""A rank sends at most this many calls of regions one by one; otherwise it sends sums."""
_TAGS = 1 << 15
"""The number of tags that every MPI has: the minimum of MPI_TAG_UB."""
_INTERVAL = 0.005
"""Seconds between two polls for a message. Blocking in MPI would take a core from the other ranks."""
_LONGEST_SEND = 5.0
"""The longest wait for a message to leave, in seconds."""


class Tracker(tracker.Tracker):
    """A :class:`gpu_tracker.Tracker` of each rank, with the report of all of them in rank 0::

        with gpu_tracker.mpi.Tracker() as tracker:
            work()
        if tracker.job is not None:
            print(tracker.job)

    All ranks of ``comm`` make a tracker, and leave its block or call ``stop()``. The figures reach rank 0 as messages,
    so no shared folder is needed. At the end, only rank 0 waits for the others. If an exception leaves the block of
    rank 0, there is no report. If a rank is killed, MPI ends all ranks, and there is no report either. With
    ``job_folder`` each rank also writes its own files, which :func:`gpu_tracker.load_job` reads.

    :param comm: The communicator of mpi4py. Default: ``COMM_WORLD``.
    :param options: The parameters of :class:`gpu_tracker.Tracker`, except ``job``.
    :ivar job: In rank 0 after the end, the report of all ranks; otherwise None. The RAM of several ranks of a node at
        one moment has only bounds.
    :raises MissingPackageError: if mpi4py is not installed.
    """  # noqa: D400 - it goes on with an example

    job: JobReport | None

    def __init__(self, comm: Comm | None = None, **options: Any) -> None:  # noqa: ANN401 - those of the tracker
        self._group = _group_of(_mpi().COMM_WORLD if comm is None else comm)
        self._tag = next(self._group.tags) % _TAGS
        self._about: dict[str, Any] = {}
        self._is_handed_over = False
        self._waits = True
        self.job = None
        super().__init__(job=self._group.identity, **options)

    def start(self) -> None:
        """Start tracking this rank, see :meth:`gpu_tracker.Tracker.start`."""
        if self.state is not self.State.NEW:
            super().start()  # which raises
        self._about = self._known_before()
        try:
            super().start()
        except GpuTrackerError:
            if self._group.comm.rank:
                self._hand_over()  # rank 0 waits for this part
            raise

    def stop(self) -> None:
        """Stop tracking this rank, see :meth:`gpu_tracker.Tracker.stop`, and make the report in rank 0."""
        try:
            super().stop()
        finally:
            if self.state is self.State.STOPPED:
                self._hand_over()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Stop tracking, if the block did not."""
        self._waits = error is None or (isinstance(error, SystemExit) and not error.code)
        super().__exit__(kind, error, traceback)

    def _known_before(self) -> dict[str, Any]:
        options = self._run.options
        return about_rank(
            RankFiles('', self._group.name),
            program=f'gpu-tracker {__version__}',
            identity=asdict(self._group.identity),
            asked=asked_of_node(os.environ),
            pid=options.process_id,
            command=sys.orig_argv,
            interval=options.sleep_time,
            units=options.units(),
            sections=options.sections,
        )

    def _hand_over(self) -> None:
        """Send the figures to rank 0, which makes the report. A second call does nothing."""
        if self._is_handed_over:
            return
        self._is_handed_over = True
        totals = self._run.totals
        ended = UNMEASURED if totals is None else STOPPED
        record = {**self._about, 'updated_unix': time.time(), 'ended': ended, 'exit_code': None, 'totals': totals}
        calls = [] if totals is None else _calls(self.regions)
        part = _Part(self._group.name, json.dumps(record), calls)
        if self._group.comm.rank:
            _send(self._group.comm, part, self._tag)
        elif self._waits:
            self.job = _report([part, *_received(self._group.comm, self._tag)])


class _Group(NamedTuple):
    """The ranks of a communicator.

    :ivar comm: A copy of the communicator, so messages do not mix with messages of the program.
    :ivar identity: The identity of this rank.
    :ivar tags: Numbers for the trackers. All ranks make them in the same order.
    """

    comm: Comm
    identity: JobIdentity
    tags: Iterator[int]

    @property
    def name(self) -> str:
        """A name of this rank."""
        return f'rank-{self.comm.rank:04d}'


class _Part(NamedTuple):
    """The message of a rank: its name, its record as text, and the calls of its regions."""

    name: str
    record: str
    calls: Sequence[RegionCall]


_keyvals: list[int] = []
"""The key of the communicator's attribute that holds its group, once one exists."""
_leaving: list[Request] = []
"""Messages that may still be leaving."""


def _mpi() -> Any:  # noqa: ANN401 - the module MPI
    """Return the module of mpi4py; its import starts MPI."""
    try:
        from mpi4py import MPI  # noqa: PLC0415 - see above
    except ImportError as error:
        from gpu_tracker.installation import install_command  # noqa: PLC0415 - ranks do without

        message = f'gpu_tracker.mpi needs the package mpi4py ({error}): {install_command("mpi")}'
        raise MissingPackageError(message) from None
    return MPI


def _group_of(comm: Comm) -> _Group:
    """Return the group of a communicator. All ranks need to call this together."""
    mpi = _mpi()
    if not _keyvals:
        _keyvals.append(mpi.Comm.Create_keyval())
        atexit.register(_wait_for_leaving, mpi)
    known = comm.Get_attr(_keyvals[0])
    if isinstance(known, _Group):
        return known
    near = comm.Split_type(mpi.COMM_TYPE_SHARED)
    around = identify(os.environ, os.getpid()) or {'launcher': 'mpi', 'node': host_name()}
    here = {'rank': comm.rank, 'size': comm.size, 'local_rank': near.rank, 'local_size': near.size}
    near.Free()
    if (around.get('rank'), around.get('size')) == (comm.rank, comm.size) and around['local_rank'] is not None:
        del here['local_rank']  # keep the launcher's: programs choose their GPUs by it
    group = _Group(comm.Dup(), JobIdentity(**{**around, **here}), count())
    comm.Set_attr(_keyvals[0], group)
    return group


def _send(comm: Comm, part: _Part, tag: int) -> None:
    """Send a part to rank 0. A slow message is sent in the background."""
    _leaving.append(comm.isend(part, dest=0, tag=tag))
    _wait_for_leaving(_mpi())


def _wait_for_leaving(mpi: Any) -> None:  # noqa: ANN401 - the module MPI
    """Wait a limited time until all messages have left: a failed rank 0 does not receive them."""
    deadline = time.monotonic() + _LONGEST_SEND
    while _leaving and not mpi.Is_finalized():
        _leaving[:] = [request for request in _leaving if not request.test()[0]]
        if not _leaving or time.monotonic() > deadline:
            break
        time.sleep(_INTERVAL)


def _received(comm: Comm, tag: int) -> Iterator[_Part]:
    """Yield the parts of the other ranks as they arrive."""
    any_rank = _mpi().ANY_SOURCE
    for _ in range(comm.size - 1):
        while not comm.iprobe(any_rank, tag):
            time.sleep(_INTERVAL)
        yield cast('_Part', comm.recv(source=any_rank, tag=tag))


def _report(parts: Sequence[_Part]) -> JobReport:
    calls = {part.name: part.calls for part in parts}
    records = [read_record(part.record, part.name) for part in parts]
    return merge(records, now=time.time(), calls_of=lambda record: calls[record.name])


def _calls(regions: Sequence[Region]) -> list[RegionCall]:
    """Return the calls of ended regions, or their sums if there are many."""
    paths: dict[int, tuple[str, ...]] = {}
    calls = []
    for region in regions:  # ordered by start, so an enclosing region comes first
        paths[region.id] = path = (*paths.get(region.parent_id or 0, ()), region.name)
        if region.wall_time is not None:
            calls.append(RegionCall(path, region.start, region.wall_time, region.calls))
    if len(calls) <= _MOST_CALLS:
        return calls
    sums: dict[tuple[str, ...], RegionCall] = {}
    for call in calls:
        before = sums.setdefault(call.path, RegionCall(call.path, call.start, 0.0, 0))
        sums[call.path] = before._replace(seconds=before.seconds + call.seconds, calls=before.calls + call.calls)
    return list(sums.values())
