"""``run``: runs a command and returns its exit code with what it has used, as exactly as the command line does."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING, NamedTuple

from gpu_tracker.errors import GpuTrackerError, ParameterError, SamplerError
from gpu_tracker.real import os, time
from gpu_tracker.regions.log import LOGS_VARIABLE
from gpu_tracker.running.command import TrackedCommand
from gpu_tracker.running.options import QUICK_STOP, Options
from gpu_tracker.running.run import Run
from gpu_tracker.running.run_regions import RunRegions
from gpu_tracker.tracker import log

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import IO, Any, Unpack

    from gpu_tracker.result.usage import ResourceUsage
    from gpu_tracker.running.options import TrackerOptions

    Stream = int | IO[Any] | None


_HAS_RUN = 'The command has run, and ended with exit code {}.'


class CommandResult(NamedTuple):
    """A named tuple: the exit code of a command, and the resources that the command used.

    :ivar exit_code: Exit code, or -n if signal n ended the command.
    :ivar resource_usage: Resources that the command used (:class:`~gpu_tracker.ResourceUsage`).
    """

    exit_code: int
    resource_usage: ResourceUsage


class CommandInterrupted(KeyboardInterrupt):
    """Raised if Ctrl-C interrupts :func:`~gpu_tracker.run`. The command was also interrupted, and has ended.

    :ivar result: Exit code and resources of the interrupted command (:class:`.CommandResult`).
    """

    def __init__(self, result: CommandResult) -> None:
        super().__init__()
        self.result = result


def run(
    command: Sequence[str | os.PathLike[str]],
    *,
    stdin: Stream = None,
    stdout: Stream = None,
    stderr: Stream = None,
    cwd: str | os.PathLike[str] | None = None,
    env: Mapping[str, str] | None = None,
    **options: Unpack[TrackerOptions],
) -> CommandResult:
    """Run a command, and return a :class:`.CommandResult`: the exit code and the used resources.

    The figures are as exact as with the command ``gpu-tracker``. Several threads may call ``run`` at the same time.

    :param command: Program and arguments, as a list of strings. No shell is used.
    :param stdin: ``stdin``, ``stdout``, ``stderr``, ``cwd`` and ``env`` are parameters of :func:`subprocess.run`.
        ``PIPE`` raises ``ValueError``.
    :param options: Parameters of :class:`~gpu_tracker.Tracker`, except ``process_id``.
    :raises OSError: if the command cannot be started, for example ``FileNotFoundError``.
    :raises RuntimeError: if measuring fails. If the sampler does not start, the command is not started (Linux) or is
        killed (other systems). If the command has ended, the exception's ``__notes__`` contain the exit code.
    :raises gpu_tracker.tracked_command.CommandInterrupted: on Ctrl-C. Any other exception kills the command.
    """
    if isinstance(command, str | bytes | os.PathLike):
        raise TypeError(
            f"run needs a list of words, such as ['sort', 'numbers'], not {command!r}: run does not use a shell"
        )
    words = [os.fsdecode(word) for word in command]
    if not words:
        raise ValueError('run needs the words of a command, but the list is empty')
    if subprocess.PIPE in (stdin, stdout, stderr):
        raise ValueError('run cannot use PIPE, because no process would read or write the pipe: use a file')
    if 'process_id' in options:
        raise TypeError('run has no parameter process_id, because run tracks the command that it starts')
    _check_texts(words, os.environ if env is None else env)
    regions = _regions(options)
    environment = dict(os.environ if env is None else env)
    if regions is not None:
        paths = (environment.get(LOGS_VARIABLE), regions.path)
        environment[LOGS_VARIABLE] = os.pathsep.join(path for path in paths if path)
    streams = {'stdin': stdin, 'stdout': stdout, 'stderr': stderr, 'cwd': cwd}
    path = None if regions is None else regions.path
    try:
        if sys.platform == 'linux':
            return _run_held(words, streams, environment, path, options)
        return _run_started(words, streams, environment, path, options)
    finally:
        if regions is not None:
            regions.remove()


def _check_texts(words: Sequence[str], environment: Mapping[str, str]) -> None:
    """Check what the kernel would not take, as :mod:`subprocess` does: the command is started by another process."""
    texts = [*words, *map(os.fsdecode, environment), *map(os.fsdecode, environment.values())]
    if any('\0' in text for text in texts):
        raise ValueError('embedded null byte')
    if any('=' in os.fsdecode(name) for name in environment):
        raise ValueError('illegal environment variable name')


def _regions(options: TrackerOptions) -> RunRegions | None:
    """Return a log for the regions of the command where it is recorded with them."""
    recording = options.get('tracking_file')
    if options.get('job_folder') is None and (recording is None or os.fsdecode(recording).endswith('.csv')):
        return None
    try:
        return RunRegions()
    except OSError:
        return None  # there is no room for a log: the run is recorded without regions


def _run_held(
    words: list[str],
    streams: Mapping[str, Any],
    environment: dict[str, str],
    regions: str | None,
    options: TrackerOptions,
) -> CommandResult:
    """Run a command that waits until the sampler is ready."""
    from gpu_tracker.running.launcher import CommandLauncher  # noqa: PLC0415 - Linux only

    launcher = CommandLauncher(words, streams, environment)
    run: Run | None = None
    try:
        command = TrackedCommand(
            words,
            folder=None if streams['cwd'] is None else os.path.abspath(streams['cwd']),
            regions=regions,
            launcher=launcher.pid,
            exec_handle=launcher.exec_handle,
        )
        run = Run(Options(**{**QUICK_STOP, **options, 'process_id': launcher.command}), log, command=command)
        run.start()
        orphans, raised = launcher.run(run.files.keep)
        problem = _stop(run)
        code, used = launcher.reap()
    except BaseException:
        launcher.kill()
        if run is not None:
            run.discard()
        raise
    finally:
        launcher.close()
    if problem is None:
        run.settle_command(used, orphans)
    return _completed(run, code, problem, raised)


def _run_started(
    words: list[str],
    streams: Mapping[str, Any],
    environment: dict[str, str],
    regions: str | None,
    options: TrackerOptions,
) -> CommandResult:
    """Run a command that runs already while the sampler starts."""
    started_at = time.monotonic()
    command = subprocess.Popen(words, env=environment, **streams)
    try:
        tracked = TrackedCommand(words, regions=regions, started_at=started_at)
        run = Run(Options(**{**QUICK_STOP, **options, 'process_id': command.pid}), log, command=tracked)
        _start_beside(command, run)
        raised: BaseException | None = None
        while command.returncode is None:
            try:
                command.wait()
            except KeyboardInterrupt as error:  # the terminal has interrupted the command as well
                raised = error
            except BaseException as error:  # noqa: BLE001 - raised again when the command has ended
                raised = error
                command.kill()
        problem = _stop(run)
    except BaseException:
        command.kill()
        command.wait()
        raise
    return _completed(run, command.returncode, problem, raised)


def _start_beside(command: subprocess.Popen[bytes], run: Run) -> None:
    """Start the measuring of a command that runs.

    :raises SamplerError: where nothing can be measured.
    """
    try:
        run.start()
    except ParameterError as error:
        if error.parameter != 'process_id':
            raise
        problem = SamplerError('Nothing was measured: the command ended before the sampler was ready.')
        problem.add_note(_HAS_RUN.format(command.wait()))
        raise problem from None
    run.keep_files()


def _stop(run: Run) -> GpuTrackerError | None:
    """Stop a run, and return why there is no result; None: there is one."""
    try:
        run.stop()
    except GpuTrackerError as error:
        return error
    return None


def _completed(
    run: Run,
    code: int,
    problem: GpuTrackerError | None,
    raised: BaseException | None,
) -> CommandResult:
    """Return the result of a command that has ended, or raise what stands in the way of that.

    :param problem: Why there is no result; None: there is one.
    :param raised: What was raised while the command ran.
    """
    if problem is not None:
        try:
            run.files.write_end(None, code)
        except OSError:
            pass  # what is raised now is the reason
        problem.add_note(_HAS_RUN.format(code))
        raise raised or problem
    run.finish(code)
    run.write_report()
    result = CommandResult(code, run.usage())
    if isinstance(raised, KeyboardInterrupt):
        raise CommandInterrupted(result) from raised
    if raised is not None:
        raise raised
    return result
