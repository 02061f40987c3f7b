"""Ray: reports of worker processes, by the interpreter that Ray starts them with, and a tracker of each actor."""

from __future__ import annotations

import atexit
import os
import shlex
import sys
from typing import TYPE_CHECKING, Any, TypeVar

from gpu_tracker.errors import MissingPackageError
from gpu_tracker.job import host_name, identify
from gpu_tracker.result.usage import JobIdentity
from gpu_tracker.tracker import Tracker

if TYPE_CHECKING:
    from collections.abc import Callable

    from gpu_tracker.result.usage import ResourceUsage

Actor = TypeVar('Actor')


def py_executable(job_folder: str | os.PathLike[str], *options: str, python: str | None = None) -> str:
    """Return what ``py_executable`` of a runtime environment has to be for all workers of a Ray job to be tracked::

        ray.init(runtime_env={'py_executable': gpu_tracker.ray.py_executable('/shared/job', '--st=0.5')})

    Each worker process then runs under ``gpu-tracker --job=FOLDER``, whatever tasks and actors Ray gives it.

    :param job_folder: A folder that all nodes share, into which each worker writes what it has used; see :doc:`jobs`.
    :param options: Options of the command ``gpu-tracker``.
    :param python: The path of the interpreter on all nodes, which has gpu_tracker and Ray; that of this process where
        not given.
    """  # noqa: D400 - it goes on with an example
    interpreter = python or sys.executable
    folder = os.path.abspath(os.fsdecode(job_folder))
    return shlex.join([interpreter, '-m', 'gpu_tracker', f'--job={folder}', *options, '--', interpreter])


def tracked(**options: Any) -> Callable[[type[Actor]], type[Actor]]:  # noqa: ANN401 - those of Tracker
    """Return a decorator of classes of actors, each of which tracks its process from its begin to its end::

        @ray.remote
        @gpu_tracker.ray.tracked(job_folder='/shared/job')
        class Trainer: ...

        usage = ray.get(trainer.resource_usage.remote())

    The method ``resource_usage`` stops the tracking, and returns what was used. Without it, the tracking stops when the
    actor ends; one that is killed, as with ``ray.kill``, leaves in ``job_folder`` what was written before. The step of
    the job is the name of the class, so that actors of one class are compared with each other.

    :param options: The parameters of :class:`gpu_tracker.Tracker`, except ``process_id`` and ``job``.
    :raises TypeError: where something else than a class is decorated, such as what ``ray.remote`` has made of one.
    """  # noqa: D400 - as above

    def decorate(actor: type[Actor]) -> type[Actor]:
        if not isinstance(actor, type):
            raise TypeError(f'gpu_tracker.ray.tracked() decorates a class, below @ray.remote, not {actor!r}')

        class TrackedActor(actor):  # type: ignore[valid-type, misc]  # a class that is only known here
            def __init__(self, *arguments: Any, **keywords: Any) -> None:  # noqa: ANN401 - those of the actor
                self._gpu_tracker = Tracker(job=_identity(actor.__name__), **options)
                self._gpu_tracker.start()
                atexit.register(_stop, self._gpu_tracker)
                super().__init__(*arguments, **keywords)

            def resource_usage(self) -> ResourceUsage:
                """Stop tracking, unless that is done, and return what was used."""
                _stop(self._gpu_tracker)
                return self._gpu_tracker.resource_usage

        for name in ('__name__', '__qualname__', '__module__', '__doc__'):
            setattr(TrackedActor, name, getattr(actor, name))
        return TrackedActor

    return decorate


def _stop(tracker: Tracker) -> None:
    if tracker.state is tracker.State.STARTED:
        tracker.stop()


def _identity(actor: str) -> JobIdentity:
    """Return the identity of an actor in whose process this is."""
    try:
        import ray  # noqa: PLC0415 - whoever imports this module to start a job needs no more than a text
    except ImportError as error:
        from gpu_tracker.installation import install_command  # noqa: PLC0415 - as above

        message = f'gpu_tracker.ray needs the package ray ({error}): {install_command("ray")}'
        raise MissingPackageError(message) from None
    around = identify(os.environ, os.getpid()) or {}
    job = around.get('job')
    if job in {None, os.environ.get('RAY_JOB_ID')}:
        # No scheduler's. The variable of a worker that Ray had started in advance has the ID of no job.
        job = ray.get_runtime_context().get_job_id()
    return JobIdentity(launcher='ray', job=job, step=actor, node=around.get('node') or host_name())
