"""Dask: a plugin that tracks each worker of a cluster, and records its tasks as regions.

Importing this module needs the package ``distributed``.
"""

from __future__ import annotations

import logging
import os
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any, ClassVar

from gpu_tracker.errors import MissingPackageError, RecordingError, SamplerError, TrackerStateError
from gpu_tracker.job import expand, host_name, identify
from gpu_tracker.jobs.records import read_folder
from gpu_tracker.regions.blocks import region
from gpu_tracker.result.usage import JobIdentity
from gpu_tracker.running.options import OPTIONS
from gpu_tracker.tracker import Tracker

try:
    from dask.utils import key_split
    from distributed import WorkerPlugin
except ImportError as missing:
    from gpu_tracker.installation import install_command

    message = f'gpu_tracker.dask needs the package distributed ({missing}): {install_command("dask")}'
    raise MissingPackageError(message) from None

if TYPE_CHECKING:
    from distributed import Client, Worker

    from gpu_tracker.result.usage import ResourceUsage

_GIVEN = ('process_id', 'job')
"""Parameters of Tracker that the plugin sets."""
_ABOUT_TO_RUN = 'executing'
"""The state of a task at its start: see the worker's state machine in Dask's documentation."""


class TrackerPlugin(WorkerPlugin):
    """A plugin that tracks the process of each worker of a cluster, including workers that join later.

    Each task is a region with Dask's name of its group: ``sum`` for ``sum-6f5e``. The rank of a worker is its name if
    the name is a number, as in a ``LocalCluster``. The job is the ID of the scheduler. Of several workers in one
    process, as with ``processes=False``, only the first is tracked::

        client.register_plugin(gpu_tracker.dask.TrackerPlugin(job_folder='/shared/job'))
        ...
        usages = gpu_tracker.dask.collect(client)

    :param job_folder: A folder that all workers share. Each worker writes its figures into it, see :doc:`jobs`. The
        files of a killed worker stay. Its replacement is another attempt of the same rank.
    :param options: Other parameters of :class:`gpu_tracker.Tracker`, except ``process_id`` and ``job``. The workers
        check their values.
    :raises TypeError: if a parameter does not exist.
    """

    name = 'gpu-tracker'
    """The name of the plugin. Dask replaces a plugin when another of the same name is registered."""

    _of_this_process: ClassVar[TrackerPlugin | None] = None
    """The plugin that tracks this process now."""

    def __init__(self, *, job_folder: str | os.PathLike[str] | None = None, **options: Any) -> None:  # noqa: ANN401 - those of Tracker
        for name in options:
            if name in _GIVEN or name not in {option.name for option in OPTIONS}:
                raise TypeError(f'TrackerPlugin has no parameter {name!r}')
        self._options = options
        self._folder = None if job_folder is None else os.path.abspath(os.fsdecode(job_folder))
        self._tracker: Tracker | None = None
        self._worker: Worker | None = None

    async def setup(self, worker: Worker) -> None:
        """Start tracking the process of ``worker``; Dask calls it.

        :raises GpuTrackerError: if the process cannot be tracked.
        """
        scheduler = await worker.scheduler.identity(n_workers=0)
        if TrackerPlugin._of_this_process is not None:
            _log().warning(
                'Dask worker %s is not tracked: another worker in the same process is already tracked.', worker.name
            )
            return
        folder, identity = _place(worker.name, str(scheduler['id']), self._folder)
        tracker = Tracker(job_folder=folder, job=identity, **self._options)
        tracker.start()
        TrackerPlugin._of_this_process = self
        self._tracker = tracker
        self._worker = worker

    def teardown(self, worker: Worker) -> None:
        """Stop tracking, if that is not done; Dask calls it."""
        del worker
        self.stop()

    def transition(self, key: Any, start: str, finish: str, **more: Any) -> None:  # noqa: ANN401 - keys of any kind
        """Make a region of a task that is about to run; Dask calls it.

        Dask calls it in the thread of the event loop. The region begins and ends in the thread of the task.
        """
        del start, more
        task = None if self._worker is None or finish != _ABOUT_TO_RUN else self._worker.state.tasks.get(key)
        if task is not None and callable(task.run_spec) and not isinstance(task.run_spec, _TaskInRegion):
            task.run_spec = _TaskInRegion(task.run_spec, key)

    def stop(self) -> ResourceUsage | None:
        """Stop tracking, if that is not done, and return the result; None if it is unknown."""
        tracker = self._tracker
        if tracker is None:
            return None
        try:
            if tracker.state is tracker.State.STARTED:
                self._worker = TrackerPlugin._of_this_process = None
                tracker.stop()
            usage = tracker.resource_usage
        except SamplerError as error:
            _log().warning('The figures of a Dask worker could not be collected: %s', error)
            return None
        return usage


def collect(client: Client) -> dict[str, ResourceUsage | None]:
    """Stop tracking on all workers of a cluster, and return their results by the address of the worker.

    An unknown result is None. Workers that are gone are missing. With a job folder, :func:`gpu_tracker.load_job` has
    them too, and also works while the workers run.

    :param client: The client that registered a :class:`TrackerPlugin`. The plugin is unregistered. With an asynchronous
        client, ``await`` the result.
    :raises TrackerStateError: if no plugin is registered.
    """
    return client.sync(_collect, client)


async def _collect(client: Client) -> dict[str, ResourceUsage | None]:
    usages = await client.run(_stop, on_error='ignore')
    try:
        await client.unregister_worker_plugin(TrackerPlugin.name)
    except ValueError:
        raise TrackerStateError(
            'No gpu_tracker.dask.TrackerPlugin is registered, or its results were already collected.'
        ) from None
    return usages


def _stop(dask_worker: Worker) -> ResourceUsage | None:
    """Stop the tracker of a worker. Dask passes the worker in the parameter of this name."""
    plugin = dask_worker.plugins.get(TrackerPlugin.name)
    return plugin.stop() if isinstance(plugin, TrackerPlugin) else None


class _TaskInRegion:
    """A task that runs as a region, and otherwise behaves like the task."""

    __slots__ = ('_key', '_task')

    def __init__(self, task: Any, key: Any) -> None:  # noqa: ANN401 - Dask's, and keys of any kind
        self._task = task
        self._key = key

    def __call__(self, *data: Any) -> Any:  # noqa: ANN401 - as the task
        if getattr(self._task, 'is_coro', False):
            return self._awaited(*data)
        with region(key_split(self._key), key=str(self._key)):
            return self._task(*data)

    async def _awaited(self, *data: Any) -> Any:  # noqa: ANN401 - as above
        async with region(key_split(self._key), key=str(self._key)):
            return await self._task(*data)

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - as above
        return getattr(self._task, name)

    def __repr__(self) -> str:
        return repr(self._task)

    def __reduce__(self) -> tuple[type[_TaskInRegion], tuple[Any, Any]]:
        """Support pickling, for executors that use processes."""
        return type(self), (self._task, self._key)


def _place(name: object, job: str, folder: str | None) -> tuple[str | None, JobIdentity]:
    """Return the job's folder and the identity of a worker."""
    around = identify(os.environ, os.getpid())
    node = host_name() if around is None else around['node']
    rank = int(str(name)) if str(name).isascii() and str(name).isdigit() else None
    identity = JobIdentity(launcher='dask', job=job, rank=rank, node=node)
    if folder is None:
        return None, identity
    folder = expand(folder, 'job_folder', asdict(identity))
    return folder, replace(identity, attempt=None if rank is None else _runs_before(folder, job, rank))


def _runs_before(folder: str, job: str, rank: int) -> int:
    """Return the number of earlier runs of a rank in the job's folder."""
    try:
        records, _ = read_folder(folder)
    except RecordingError:
        return 0  # the first worker makes the folder
    return sum(record.job.job == job and record.job.rank == rank for record in records)


def _log() -> logging.Logger:
    return logging.getLogger('gpu_tracker')
