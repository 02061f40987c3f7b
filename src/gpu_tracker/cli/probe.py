"""``gpu-tracker probe``: counts the CUDA calls of a program from outside."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

from gpu_tracker.cli import output
from gpu_tracker.cli.output import FAILURE
from gpu_tracker.cli.probe_request import LIMITS, read_request
from gpu_tracker.cli.probing import COMPLETE, Probing, attached
from gpu_tracker.cli.running_process import Waiting, hidden_process, no_process, open_process
from gpu_tracker.cli.screen import Keys
from gpu_tracker.errors import GpuTrackerError, ParameterError
from gpu_tracker.running.held_command import start_fault

if TYPE_CHECKING:
    from gpu_tracker.cli import options
    from gpu_tracker.cli.probe_request import ProbeRequest
    from gpu_tracker.cli.probing import ProbeMaker

TEXT = f"""
Traces the CUDA calls of a program and everything it starts: kernel launches, memory,
streams, failed calls, and the time between launches and synchronisations. The program
is neither changed nor restarted. Needs Linux, and root or the capabilities BPF and
PERFMON.

Usage:
  gpu-tracker probe [options] [--library=<path>]... [--limit=<limit>]...
                    [--] <command> [<argument>...]
  gpu-tracker probe -e <command> [options] [--library=<path>]... [--limit=<limit>]...
  gpu-tracker probe --pid=<pid> [options] [--library=<path>]... [--limit=<limit>]...

Options:
  -e --execute=<command>  Run this shell command, in quotes. Without -e, write the
                        program and its arguments after the options.
  --pid=<pid>           Probe the running process with this ID, until the process
                        ends or you press Ctrl-C.
  --duration=<seconds>  Stop probing after this number of seconds. The program goes
                        on.
  -f --format=<format>  Print the report as text or json. [default: text]
  --json                The same as --format=json.
  --live                Also show the figures so far each second. In a terminal, new
                        figures replace the old ones. With --json, each line is one
                        JSON object. With --pid, the key q ends the probing.
  --st, --interval=<seconds>  Show the figures of --live at this interval, in
                        seconds, at least 0.1. [default: 1]
  -o --output=<file>    Write the report to this file. Default: standard output.
  --top=<n>             For each process, show two lists of n CUDA kernels: those
                        with the most launches, and those with the most time. The
                        JSON report has more kernels. [default: 5]
  --library=<path>      Trace this CUDA library from the first call on. If CUDA is
                        linked into a program, give the path of the program.
  --limit=<limit>       Change a limit of the probe, such as kernels=32768.
                        The documentation explains the limits. The defaults are:
{LIMITS}
  -h --help             Print this text.
  -v --version          Print the version.

The command keeps its standard input, output, error and signals. Exit codes: the
command's own; 128 + n if signal n ended it; 127 if it was not found; 126 if it could
not be started; 125 if gpu-tracker failed. If probing is impossible, the reason is
printed and reported, and the command runs unprobed; with --pid the exit code is 125.
"""


def run(values: options.Values, make_probe: ProbeMaker | None = None) -> int:
    """Probe what ``values`` ask for, write the report, and return the exit code.

    :param make_probe: Makes a probe from limits, libraries and the command; by default a probe in the kernel.
    """
    request = read_request(values)
    if sys.platform != 'linux':
        raise GpuTrackerError('probe runs on Linux only')
    if request.process_id is not None:
        return _probe_process(request, request.process_id, make_probe)
    return _probe_command(request, make_probe)


def _probe_command(request: ProbeRequest, make_probe: ProbeMaker | None) -> int:
    """Start the command of ``request``, probe it to its end, write the report, and return the exit code."""
    from gpu_tracker.running import supervise  # noqa: PLC0415 - not on every system
    from gpu_tracker.running.held_command import HeldCommand  # noqa: PLC0415 - as above

    # Most failures show before anything is started for nothing; the exec reports the rest.
    error = start_fault(request.words[0], os.get_exec_path())
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
    return _wait_for_command(command.process_id, probing)


def _attach(request: ProbeRequest, process_id: int, make_probe: ProbeMaker | None) -> Probing:
    """Return the probing of the held process; without a probe if it cannot be probed."""
    try:
        return Probing(request, attached(request, process_id, make_probe))
    except ParameterError:
        raise
    except GpuTrackerError as error:
        problem = str(error)
    except Exception as error:  # noqa: BLE001 - the command was what the user wanted first
        problem = f'CUDA calls cannot be probed: internal error: {type(error).__name__}: {error}'
    output.complain(f'{problem.rstrip(".")}. The command runs without the probe.')
    return Probing(request, None, problem)


def _wait_for_command(process_id: int, probing: Probing) -> int:
    """Wait for the running command, and report."""
    from gpu_tracker.running import supervise  # noqa: PLC0415 - as above

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


def _probe_process(request: ProbeRequest, process_id: int, make_probe: ProbeMaker | None) -> int:
    """Probe ``process_id``, write the report, and return the exit code."""
    try:
        handle = open_process(process_id, may_be_of_others=True)
        probing = Probing(request, attached(request, process_id, make_probe))
    except ProcessLookupError:
        request.destination.forget()
        raise hidden_process(process_id) or no_process(process_id) from None
    except BaseException:
        request.destination.forget()
        raise
    try:
        waiting = Waiting(process_id, handle)
        probing.begin()
    except BaseException:
        probing.discard()
        raise
    with Keys(request.live) as keys:
        waiting.wait({probing.over: lambda: True, **keys.watched})
    probing.end()
    code = _deliver_of_process(probing, request)
    probing.close()
    return code


def _deliver_of_process(probing: Probing, request: ProbeRequest) -> int:
    """Write the report, and return the exit code."""
    if probing.live_code and not request.to_file:
        return probing.live_code  # nobody has read the reports before the last one either
    if probing.is_complete:
        output.say(COMPLETE)
    return probing.live_code if probing.deliver() else FAILURE
