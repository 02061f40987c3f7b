"""Ray: run workers under gpu-tracker, or track single actors."""

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
    """Return the ``py_executable`` of a runtime environment that tracks all workers of a Ray job::

        ray.init(runtime_env={'py_executable': gpu_tracker.ray.py_executable('/shared/job', '--st=0.5')})

    Each worker process then runs under ``gpu-tracker --job=FOLDER``.

    :param job_folder: A folder that all nodes share. Each worker writes its figures into it, see :doc:`jobs`.
    :param options: Options of the command ``gpu-tracker``.
    :param python: The path of a Python with gpu_tracker and Ray on all nodes. Default: the path of this Python.
    """  # noqa: D400 - it goes on with an example
    interpreter = python or sys.executable
    folder = os.path.abspath(os.fsdecode(job_folder))
    return shlex.join([interpreter, '-m', 'gpu_tracker', f'--job={folder}', *options, '--', interpreter])


def tracked(**options: Any) -> Callable[[type[Actor]], type[Actor]]:  # noqa: ANN401 - those of Tracker
    """Return a decorator for classes of actors, which tracks the process of each actor::

        @ray.remote
        @gpu_tracker.ray.tracked(job_folder='/shared/job')
        class Trainer: ...

        usage = ray.get(trainer.resource_usage.remote())

    The method ``resource_usage`` stops tracking and returns the result. Otherwise tracking stops when the actor ends.
    After ``ray.kill``, ``job_folder`` has the figures up to the last report. The step of the job is the name of the
    class, so actors of one class are compared with each other.

    :param options: The parameters of :class:`gpu_tracker.Tracker`, except ``process_id`` and ``job``.
    :raises TypeError: if the decorated object is not a class. Put this decorator below ``@ray.remote``.
    """  # noqa: D400 - as above

    def decorate(actor: type[Actor]) -> type[Actor]:
        if not isinstance(actor, type):
            raise TypeError(
                f'gpu_tracker.ray.tracked() decorates only classes, not {actor!r}. Put tracked() below @ray.remote'
            )

        class TrackedActor(actor):  # type: ignore[valid-type, misc]  # a base class only known at run time
            def __init__(self, *arguments: Any, **keywords: Any) -> None:  # noqa: ANN401 - those of the actor
                self._gpu_tracker = Tracker(job=_identity(actor.__name__), **options)
                self._gpu_tracker.start()
                atexit.register(_stop, self._gpu_tracker)
                super().__init__(*arguments, **keywords)

            def resource_usage(self) -> ResourceUsage:
                """Stop tracking, if that is not done, and return the result."""
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
    """Return the identity of the actor in this process."""
    try:
        import ray  # noqa: PLC0415 - py_executable() needs no Ray
    except ImportError as error:
        from gpu_tracker.installation import install_command  # noqa: PLC0415 - as above

        message = f'gpu_tracker.ray needs the package ray ({error}): {install_command("ray")}'
        raise MissingPackageError(message) from None
    around = identify(os.environ, os.getpid()) or {}
    job = around.get('job')
    if job in {None, os.environ.get('RAY_JOB_ID')}:
        # Not the ID of a scheduler. Ray starts some workers before the job: their variable is not its ID.
        job = ray.get_runtime_context().get_job_id()
    return JobIdentity(launcher='ray', job=job, step=actor, node=around.get('node') or host_name())
