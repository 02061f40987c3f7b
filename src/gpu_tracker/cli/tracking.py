"""Shared steps of tracking a command and a running process."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpu_tracker.cli import output
from gpu_tracker.errors import GpuTrackerError, ParameterError

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping
    from typing import Any, TypeVar

    from gpu_tracker.advice.facts import RecordedFacts
    from gpu_tracker.cli.request import Request
    from gpu_tracker.limits import RunLimits
    from gpu_tracker.processes.reaped import OrphansUse
    from gpu_tracker.recording.reading.recording import Recording
    from gpu_tracker.result.usage import ResourceUsage
    from gpu_tracker.running.command import TrackedCommand
    from gpu_tracker.running.run import Run
    from gpu_tracker.totals import ProcessUse
    from gpu_tracker.views.short_report import Recorded

    Read = TypeVar('Read')

COMPLETE = 'Resource tracking complete.'
_WITHOUT_ADVICE = ('text', 'csv')
_LONGEST_READING = 0.5
"""Seconds for reading the recording at the end. A large one adds nothing to the report."""


def notify(level: str, text: str) -> None:
    """Print a message of a run if it is a warning."""
    if level == 'warning':
        output.complain(text)


def say(request: Request, text: str) -> None:
    """Print a line about the end of the run, if one is wanted."""
    if request.announces_end:
        output.say(text)


def check_format(request: Request) -> None:
    """Raise ParameterError if there is no such format."""
    from gpu_tracker.result.formats import (  # noqa: PLC0415 (not before the command has been forked, so that it is small)
        FORMATS,
        FORMATS_ACCEPTED,
    )

    if request.format is not None and request.format not in FORMATS:
        raise ParameterError('--format', request.format, FORMATS_ACCEPTED)


def check(request: Request) -> None:
    """Raise ParameterError if a format or parameter is wrong, without starting a sampler."""
    from gpu_tracker.running.options import Options  # noqa: PLC0415 (as above)

    check_format(request)
    Options(**request.parameters)


def new_run(
    request: Request, process_id: int, command: TrackedCommand | None, kept_otherwise: Collection[str] = ()
) -> Run:
    """Return the run of ``request``.

    :param command: The command that is tracked; None: the process.
    :param kept_otherwise: Reasons of the limits that the kernel keeps.
    """
    # Imported after the fork: what the waiting process holds counts in the peak that the kernel keeps for the command.
    from gpu_tracker.running.options import QUICK_STOP, Options  # noqa: PLC0415
    from gpu_tracker.running.run import Run  # noqa: PLC0415

    destination = request.destination
    report = None if destination.replaceable is None else (destination.replaceable, request.form, destination.appends)
    return Run(
        Options(**{**QUICK_STOP, **request.parameters, 'process_id': process_id}),
        notify,
        command=command,
        report=report,
        commit_interval=request.commit_interval,
        limits=None if request.limits is None else request.limits.sampled(kept_otherwise),
        keeps=request.keeps,
    )


def tell_unmeasured(error: Exception) -> None:
    """Print why a command runs without being measured."""
    if isinstance(error, GpuTrackerError):
        reason = str(error)
    elif isinstance(error, OSError):
        reason = output.reason(error)
    else:
        reason = f'internal error: {type(error).__name__}: {error}'
    output.complain(f'the command runs unmeasured: {reason}')


def stop(run: Run) -> bool:
    """Stop ``run``; return whether there is a result, and print the reason if not."""
    try:
        run.stop()
    except GpuTrackerError as error:
        output.complain(str(error))
    except Exception as error:  # noqa: BLE001 (the command has run: its exit code must not be lost)
        output.complain(f'internal error: {type(error).__name__}: {error}')
    else:
        return True
    return False


def settle(
    run: Run,
    usage: ProcessUse,
    orphans: OrphansUse | None,
    own_group: Mapping[str, Any] | None = None,
) -> bool:
    """Add the exact figures of the reaped command and of its control group to ``run``.

    Return whether there still is a result.
    """
    try:
        run.settle_command(usage, orphans)
        if own_group is not None:
            run.add_own_group(own_group)
    except Exception as error:  # noqa: BLE001 (the command has run: its exit code must not be lost)
        output.complain(f'internal error: {type(error).__name__}: {error}')
        return False
    return True


def finish(
    run: Run,
    exit_code: int | None,
    *,
    limits: RunLimits | None = None,
    kept_otherwise: Collection[str] = (),
    termination_reason: str | None = None,
) -> None:
    """Complete the result of ``run``, and its recording, if there is one.

    :param limits: The limits of the command; None: there are none.
    :param kept_otherwise: Reasons of limits enforced by the kernel, not by the sampler.
    :param termination_reason: Which limit has ended the command; None: none has.
    """
    try:
        if termination_reason is not None:
            run.add(termination_reason=termination_reason)
        elif limits is not None:
            _note_exceeded(run, limits, kept_otherwise)
        run.finish(exit_code)
    except Exception as error:  # noqa: BLE001 (the command has run: its exit code must not be lost)
        output.complain(f'internal error: {type(error).__name__}: {error}')


def note_exit(run: Run, exit_code: int) -> None:
    """Write how a command without a result ended into the job's folder, if there is one."""
    try:
        run.files.write_end(None, exit_code)
    except OSError as error:
        output.complain(f'the result of this rank could not be written into the job folder: {output.reason(error)}')


def exit_code(code: int, termination_reason: str | None, *, delivered: bool) -> int:
    """Return the exit code of gpu-tracker.

    :param code: Exit code of the command; -n if signal n ended it.
    :param termination_reason: Which limit has ended it; None: none has.
    :param delivered: Whether there is a report.
    """
    if termination_reason is not None:
        from gpu_tracker.limits import EXIT_CODE  # noqa: PLC0415 (few runs have ended so)

        return EXIT_CODE
    if code < 0:
        return 128 - code
    return code if code or delivered else output.FAILURE


def _note_exceeded(run: Run, limits: RunLimits, kept_otherwise: Collection[str]) -> None:
    """Add the limits exceeded by a command that ended by itself to the result, and print them."""
    from gpu_tracker.limits import exceeded, seen_late_in_words, used_in  # noqa: PLC0415 (as above)

    totals = run.require_totals()
    messages = {
        reason: seen_late_in_words(limit, amount)
        for reason, amount in exceeded(limits.compared(kept_otherwise), used_in(totals))
        if (limit := limits.of(reason)) is not None
    }
    if messages:
        warnings = [('warning', text) for text in messages.values()]
        run.add(exceeded_limits=list(messages), messages=[*totals['messages'], *warnings])
    for text in messages.values():
        output.complain(text)


def _warn_of_unknown(usage: ResourceUsage, limits: RunLimits) -> None:
    """Print which limit could not be checked, because its figure is unknown."""
    from gpu_tracker.limits import GPU_MEMORY, unkept  # noqa: PLC0415 (as above)

    if limits.of(GPU_MEMORY) is not None and usage.max_gpu_ram.combined is None:
        output.complain(unkept([GPU_MEMORY], 'the GPU memory of the command is unknown'))


def _advised(
    usage: ResourceUsage, run: Run, request: Request, exit_code: int | None, recorded: RecordedFacts | None
) -> ResourceUsage:
    """Return the result with its advice, if advice is wanted."""
    if not _wants_advice(request):
        return usage
    from dataclasses import replace  # noqa: PLC0415 (as above)

    from gpu_tracker.advice import advice_of  # noqa: PLC0415 (as above)
    from gpu_tracker.advice.facts import RecordedFacts  # noqa: PLC0415 (as above)

    try:
        found = advice_of(usage, run.require_totals(), exit_code, recorded or RecordedFacts())
    except Exception as error:  # noqa: BLE001 (the figures are what the user wants first)
        output.complain(f'internal error: {type(error).__name__}: {error}')
        return usage
    return replace(usage, advice=found)


def _wants_advice(request: Request) -> bool:
    return not request.values['--no-advice'] and request.format not in _WITHOUT_ADVICE


def _recorded_facts(recording: Recording) -> RecordedFacts:
    from gpu_tracker.advice.recorded import recorded_in  # noqa: PLC0415 - takes 10 ms

    return recorded_in(recording)


def read_in_time(path: str | None, read: Callable[[Recording], Read]) -> Read | None:
    """Return what ``read`` returns for a recording; None if there is none, if reading fails, or if it takes long."""
    if path is None:
        return None
    from gpu_tracker.background import call_in_time  # noqa: PLC0415 (as above)
    from gpu_tracker.recording.reading.recording import load  # noqa: PLC0415 (as above)

    def work() -> Read:
        with load(path) as recording:
            return read(recording)

    try:
        return call_in_time(work, _LONGEST_READING)
    except Exception:  # noqa: BLE001 (whatever it is, a TimeoutError too, the report is worth more)
        return None


def deliver(run: Run, request: Request, exit_code: int | None) -> bool:
    """Write the report of ``run`` to its destination; return whether that succeeded.

    :param exit_code: Exit code of the command; None: unknown.
    """
    try:
        if request.limits is not None:
            _warn_of_unknown(run.usage(), request.limits)
        if request.is_silent and run.is_in_folder:
            return True
        if request.verbose:
            output.say(str(run.sampling()))
        if request.format is None:
            _print_short_report(run, request, exit_code)
            return True
        from gpu_tracker.result.formats import Form  # noqa: PLC0415 (as above)

        recorded = read_in_time(run.recording, _recorded_facts) if _wants_advice(request) else None
        usage = _advised(run.usage(), run, request, exit_code, recorded)
        report = Form(*request.form).render(usage, exit_code)
        is_said = usage.termination_reason or usage.exceeded_limits
        if request.values['<command>'] and request.values['--output'] is not None and not is_said:
            from gpu_tracker.cli import short_report  # noqa: PLC0415 (as above)

            short_report.print_failure(usage, request, exit_code)
    except Exception as error:  # noqa: BLE001 (the command has run: its exit code must not be lost)
        output.complain(f'internal error: {type(error).__name__}: {error}')
        return False
    return request.destination.write(report)


def _print_short_report(run: Run, request: Request, exit_code: int | None) -> None:
    from gpu_tracker.cli import short_report  # noqa: PLC0415 (as above)

    usage = run.usage()
    if request.quiet:
        short_report.print_failure(usage, request, exit_code)
        return

    def read(recording: Recording) -> tuple[Recorded, RecordedFacts | None]:
        facts = _recorded_facts(recording) if _wants_advice(request) else None
        return short_report.read_recorded(recording, usage), facts

    recorded, facts = read_in_time(run.recording, read) or (None, None)
    short_report.print_report(
        _advised(usage, run, request, exit_code, facts),
        request,
        exit_code,
        recorded=recorded,
        recording=run.files.recording,
        kept=run.number,
    )
