"""Probes a command: starts it when the probe is attached, waits for it, reports, and ends as it has ended."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from gpu_tracker.cli import FAILURE, command_words, output, supervise
from gpu_tracker.cli.launch import HeldCommand
from gpu_tracker.cli.probing import COMPLETE, Probing, attached
from gpu_tracker.errors import GpuTrackerError, ParameterError

if TYPE_CHECKING:
    from gpu_tracker.cli.probe_request import ProbeRequest
    from gpu_tracker.cli.probing import ProbeMaker


def probe(request: ProbeRequest, make_probe: ProbeMaker | None) -> int:
    """Start the command of ``request``, probe it to its end, write the report, and return the exit code."""
    # Most failures show before anything is started for nothing; the exec tells the rest.
    error = command_words.start_fault(request.words[0], os.get_exec_path())
    if error is not None:
        request.destination.forget()
        return output.not_started(request.words[0], error)
    command = HeldCommand(request.words)
    try:
        probing = _attach(request, command.process_id, make_probe)
    except BaseException:
        command.cancel()
        request.destination.forget()
        raise
    # From here on signals wait, in the threads of the probe too: each is passed on to the command.
    supervise.hold_signals()
    try:
        probing.begin()
    except BaseException:
        command.cancel()
        probing.discard()
        raise
    error = command.release()
    if error is not None:
        os.waitpid(command.process_id, 0)
        probing.discard()
        return output.not_started(request.words[0], error)
    return _follow(command.process_id, probing)


def _attach(request: ProbeRequest, process_id: int, make_probe: ProbeMaker | None) -> Probing:
    """Return what probes the waiting process; where that is not possible, the command runs all the same."""
    try:
        return Probing(request, attached(request, process_id, make_probe))
    except ParameterError:
        raise
    except GpuTrackerError as error:
        problem = str(error)
    except Exception as error:  # noqa: BLE001 - the command was what the user wanted first
        problem = f'CUDA calls cannot be probed: internal error: {type(error).__name__}: {error}'
    output.complain(f'{problem.rstrip(".")}. The command runs all the same.')
    return Probing(request, None, problem)


def _follow(process_id: int, probing: Probing) -> int:
    """Wait for the running command, and report."""
    try:
        supervise.wait_for_end(process_id)
    except Exception as error:  # noqa: BLE001 - whatever it is, a command that runs is never abandoned
        output.complain(f'internal error: {type(error).__name__}: {error}')
        supervise.wait_plainly(process_id)
    probing.end()
    _, status = os.waitpid(process_id, 0)
    supervise.let_signals_through()
    code = os.waitstatus_to_exitcode(status)
    complete = f'{COMPLETE} ' if probing.is_complete else ''
    output.say(f'{complete}Process completed with status code: {code}')
    delivered = probing.deliver()
    supervise.hold_signals()  # while the probe is detached: the exit code is the command's own
    probing.close()
    if code < 0:
        return 128 - code
    return code if code or delivered else FAILURE
