"""Tracks a command: starts it, waits for it, reports, and returns its exit code."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from gpu_tracker.cli import output, tracking
from gpu_tracker.cli.command_group import CommandGroup
from gpu_tracker.cli.command_regions import CommandRegions
from gpu_tracker.cli.output import FAILURE
from gpu_tracker.errors import ParameterError, SamplerError
from gpu_tracker.running import supervise
from gpu_tracker.running.held_command import (
    HeldCommand,
    become_subreaper,
    execute,
    raise_limit_on_descriptors,
    restore_signals,
    start_fault,
)

if TYPE_CHECKING:
    from collections.abc import Collection

    from gpu_tracker.cli.live import LiveView
    from gpu_tracker.cli.request import Request
    from gpu_tracker.running.enforcing import Enforcement
    from gpu_tracker.running.run import Run


def track(request: Request, view: LiveView | None = None) -> int:
    """Start the command of ``request``, track it to its end, write the report, and return the exit code.

    :param view: Shows its use meanwhile.
    """
    # Most failures are found before a sampler starts; the exec finds the rest.
    error = start_fault(request.words[0], os.get_exec_path())
    if error is not None:
        return output.not_started(request.words[0], error)
    regions = CommandRegions(request)
    try:
        return _track(request, regions, view)
    finally:
        regions.remove()


def _track(request: Request, regions: CommandRegions, view: LiveView | None) -> int:
    """Track the command, which writes its regions to the log of ``regions``."""
    try:
        with regions:
            command = HeldCommand(request.words)
    except OSError as refusal:
        regions.remove()
        return _become(request, refusal)
    group = CommandGroup(request)
    early = supervise.EarlySignals()
    run = None
    try:
        with early:
            group.obtain(command.process_id)
            run = run_or_none(command, request, regions.path, group.keeps)
        # From here on signals wait: each is either passed on to the command or came before it was there.
        enforcement = _enforcement(command.process_id, run, request, group)
    except BaseException:
        _abandon(command, run, request, group)
        supervise.let_signals_through()
        raise
    if early.received is not None:
        _abandon(command, run, request, group)
        regions.remove()
        return early.end_as_received()
    if run is not None or enforcement is not None:
        become_subreaper()
    error = command.release()
    if enforcement is not None:
        enforcement.begin()
    if error is not None:
        os.waitpid(command.process_id, 0)
        group.discard()
        if run is not None:
            run.discard()
        request.destination.forget()
        return output.not_started(request.words[0], error)
    if run is not None:
        run.keep_files()
        if view is not None:
            view.begin()
    return _follow(command.process_id, run, request, view, group, enforcement)


def _abandon(command: HeldCommand, run: Run | None, request: Request, group: CommandGroup) -> None:
    """Remove all files of a run whose command was not started."""
    command.cancel()
    group.discard()
    if run is not None:
        run.discard()
    request.destination.forget()


def _become(request: Request, reason: OSError) -> int:
    """Replace this process by the command, if no other process can be started; return only if that fails."""
    try:
        tracking.check(request)
    except ParameterError:
        raise
    except Exception:  # noqa: BLE001, S110 (there is no descriptor left to load with what would check it)
        pass
    request.destination.forget()
    tracking.tell_unmeasured(SamplerError(f'cannot start the process that measures: {output.reason(reason)}'))
    if request.limits is not None:
        output.complain(request.limits.unkept_unmeasured())
    restore_signals()
    try:
        execute(request.words)
    except OSError as error:
        return output.not_started(request.words[0], error)
    return FAILURE


def run_or_none(
    command: HeldCommand, request: Request, regions: str | None, kept_otherwise: Collection[str] = ()
) -> Run | None:
    """Return a run ready to measure the held process; None if it cannot be measured.

    :param regions: The path of the log of its regions; None: there is none.
    :param kept_otherwise: Reasons of the limits that need no sampler.
    """
    try:
        return _start_run(command, request, regions, kept_otherwise)
    except ParameterError:
        raise
    except Exception as error:  # noqa: BLE001 (whatever it is, the command was what the user wanted first)
        request.destination.forget()
        tracking.tell_unmeasured(error)
        return None


def _start_run(command: HeldCommand, request: Request, regions: str | None, kept_otherwise: Collection[str]) -> Run:
    # Imported after the fork: what the waiting process holds counts in the peak that the kernel keeps for the command.
    from gpu_tracker.running.command import TrackedCommand  # noqa: PLC0415

    raise_limit_on_descriptors()
    tracking.check_format(request)
    tracked = TrackedCommand(request.words, regions=regions, launcher=os.getpid(), exec_handle=command.exec_handle)
    run = tracking.new_run(request, command.process_id, tracked, kept_otherwise)
    run.start()
    return run


def _follow(
    process_id: int,
    run: Run | None,
    request: Request,
    view: LiveView | None,
    group: CommandGroup,
    enforcement: Enforcement | None,
) -> int:
    """Wait for the running command, and report if it is tracked."""
    orphans = None
    try:
        orphans = enforcement.wait_for_end() if enforcement else supervise.wait_for_end(process_id)
    except Exception as error:  # noqa: BLE001 (whatever it is, a command that runs is never abandoned)
        output.complain(f'internal error: {type(error).__name__}: {error}')
        supervise.wait_plainly(process_id)
    reason = None if enforcement is None else enforcement.reason
    if view is not None:
        view.end()
    if run is not None and enforcement is not None:
        run.are_kills_reported = enforcement.reports_kills
    measured = run is not None and tracking.stop(run)
    _, status, usage = os.wait4(process_id, 0)
    code = os.waitstatus_to_exitcode(status)
    of_group = group.end()
    completed = f'Process completed with status code: {code}'
    if run is None:
        supervise.let_signals_through()
        tracking.say(request, completed)
        delivered = False
    else:
        tracking.say(request, f'{tracking.COMPLETE} {completed}')
        settled = measured and tracking.settle(run, usage, orphans, of_group)
        if settled:
            tracking.finish(run, code, limits=request.limits, kept_otherwise=group.keeps, termination_reason=reason)
        else:
            tracking.note_exit(run, code)
        supervise.let_signals_through()  # only now: schedulers send SIGTERM again and again
        delivered = settled and tracking.deliver(run, request, code)
    return tracking.exit_code(code, reason, delivered=delivered)


def _enforcement(process_id: int, run: Run | None, request: Request, group: CommandGroup) -> Enforcement | None:
    """Return the limits of the held command; None: there are none."""
    if request.limits is None:
        return None
    from gpu_tracker.running.enforcing import Enforcement  # noqa: PLC0415 (most runs have none)

    return Enforcement(
        process_id,
        request.limits,
        None if run is None else run.session,
        output.complain,
        group=group.group,
        kept_otherwise=group.keeps,
        samplers_grace=group.samplers_grace,
    )
