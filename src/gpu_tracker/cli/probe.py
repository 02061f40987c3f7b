"""``gpu-tracker probe``: shows what a program does with CUDA, from outside."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from gpu_tracker.cli import output
from gpu_tracker.cli.probe_request import LIMITS, read_request
from gpu_tracker.errors import GpuTrackerError

if TYPE_CHECKING:
    from gpu_tracker.cli.probing import ProbeMaker

TEXT = f"""
Shows what a program and all that it starts do with CUDA, seen from outside: kernel
launches, memory, streams, failed calls, and the time between launches and
synchronisations. The program is neither changed nor restarted. Linux, as root or with
the capabilities BPF and PERFMON.

Usage:
  gpu-tracker probe -h | --help
  gpu-tracker probe -v | --version
  gpu-tracker probe (-e <command> | --execute=<command>) [options]
                    [--library=<path>]... [--limit=<limit>]...
  gpu-tracker probe [options] [--library=<path>]... [--limit=<limit>]...
                    -- <command> [<argument>...]
  gpu-tracker probe --pid=<pid> [options] [--library=<path>]... [--limit=<limit>]...

Options:
  -e --execute=<command>  A whole shell command, in quotes. After a bare -- stands a
                        program with its arguments instead, passed on untouched.
  --pid=<pid>           Look at a process that runs already, until it ends or Ctrl-C
                        ends the looking: its ID, a whole number.
  --duration=<seconds>  Look for so long at most. A command goes on afterwards.
  --json                Report as one JSON object; the documentation tells its keys.
  --live                Show also each second what has happened until then, on a
                        terminal in place and with the rates of the last second. JSON is
                        one object a line. With --pid the key q ends it.
  --interval=<seconds>  The time between two looks of --live: a number of seconds, 0.1
                        at least. [default: 1]
  -o --output=<file>    Where to write the report: a path. Default: standard output.
  --top=<n>             Kernels to show of each process: the n most launched and the n
                        with the most time. JSON has more. [default: 5]
  --library=<path>      A library or program with CUDA's functions that is not found
                        by its name.
  --limit=<limit>       A bound on what is held in memory, as kernels=32768. These
                        are the bounds, which the documentation explains:
{LIMITS}
  -h --help             Print this text.
  -v --version          Print the version.

The command keeps its standard input, output and error, and its signals. The exit
code is the command's own, 128 + n where signal n ended it, 127 where it was not
found, 126 where it could not be started, and 125 where gpu-tracker itself failed.
Where probing is not possible, a line on standard error says why, and the command runs
all the same; the report then has this reason alone. With --pid the exit code is 125.
"""


def run(arguments: list[str], make_probe: ProbeMaker | None = None) -> int:
    """Probe what ``arguments`` ask for, write the report, and return the exit code.

    :param make_probe: Makes a probe of limits, libraries and the command; by default one that asks the kernel.
    """
    request = read_request(TEXT, arguments[1:], arguments[0])
    if isinstance(request, str):
        return output.print_text(request)
    if sys.platform != 'linux':
        raise GpuTrackerError('probe looks through the kernel of Linux, and runs there only')
    if request.process_id is not None:
        from gpu_tracker.cli import probe_process  # noqa: PLC0415 - each way to probe imports only what it needs

        return probe_process.probe(request, request.process_id, make_probe)
    from gpu_tracker.cli import probe_command  # noqa: PLC0415 - as above

    return probe_command.probe(request, make_probe)
