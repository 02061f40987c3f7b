"""The command ``gpu-tracker`` itself: tracks a command or a process."""

from __future__ import annotations

import os
import signal
import sys

from gpu_tracker.cli import output
from gpu_tracker.cli.help_texts import blocks_of
from gpu_tracker.cli.request import read_request
from gpu_tracker.running.options import OPTIONS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from gpu_tracker.cli import options
    from gpu_tracker.cli.live import LiveView
    from gpu_tracker.cli.request import Request
    from gpu_tracker.running.options import Option

# Not the docstring of the module: python -OO would take it away.
_TEXT = """
Runs a command, or watches a running process, and reports the RAM, GPU RAM, CPU,
GPU utilization and time that it and everything it starts use.

Examples:
  gpu-tracker python train.py
  gpu-tracker --time-limit=2h --record=run.db python train.py
  gpu-tracker report run.db

Usage:
  gpu-tracker [options] [--] <command> [<argument>...]
  gpu-tracker -e <command> [options]
  gpu-tracker --pid=<pid> [options]

Options:
  -e --execute=<command>  Run this shell command, in quotes. Without -e, write the
                          program after the options. Put -- before a program that is
                          named like a command of gpu-tracker, such as report.
  --pid=<pid>             Track the running process with this ID, until the process
                          ends or you press Ctrl-C.
  -o --output=<file>      Write the report to this file. The name - means standard
                          output.
  -f --format=<format>    The format of the report: text, json, summary (at most
                          twelve lines) or csv (a header line and a line of
                          figures). Default: text with -e, --pid or -o, otherwise
                          a short report on standard error.
{common}
  --time-limit=<time>     End the command and everything it started after this time,
                          such as 90 (seconds), 30m or 1.5h.

More options:
  --json                  The same as --format=json.
  --append                With --format=csv, add a line for this run to the table in
                          the file of --output.
  --tconfig=<file>        Set options with this JSON file. Its keys are parameters
                          of the Python class Tracker. Options on the command line
                          override the file.
{of_tracker}
  --cgroup                Run the command in its own control group (Linux, if
                          possible), and also report the figures of the group.
                          Processes that still run when the command ends are killed.
  --cpu-limit=<time>      End the command when its processes together have used this
                          much CPU time.
  --memory-limit=<size>   End the command if its processes together use more RAM
                          than this size, such as 2GB or 512MiB. With --cgroup, the
                          Linux kernel enforces this limit.
  --gpu-memory-limit=<size>  End the command if its processes together use more GPU
                          memory than this size.
  --kill-after=<time>     When a limit is exceeded, the command gets SIGTERM and,
                          after this time, SIGKILL. Default: 10s.
  --live                  Show current figures in the terminal during the run.
                          Terminal output of the program goes to a log file instead.
  --no-advice             Print no advice for the next run.
  --verbose               Also report how the sampling worked: number of samples,
                          delays, CPU cost, and reasons why figures may be too low.
  --keep                  Keep a recording of the run. The command gpu-tracker runs
                          lists kept runs. On Linux, --keep is the default, except
                          with -e or --pid, in jobs and in CI.
  --no-keep               Keep no recording of the run. To make this the default,
                          set GPU_TRACKER_KEEP=0.
  -q --quiet              Print only errors, the status of a failed command, and the
                          report of -f or -o.
  -h --help               Print this text.
  -v --version            Print the version.

The paths of -o and --record can contain {{job}}, {{rank}}, {{node}}, {{pid}} and {{date}}.
The path of --job can contain {{job}} and {{node}}. The launcher (Slurm, mpirun,
torchrun and others) sets job, rank and node.

Environment variables set defaults: GPU_TRACKER_FORMAT=json, GPU_TRACKER_QUIET=1,
GPU_TRACKER_SLEEP_TIME=0.1. A default that does not fit other options is ignored.
-e, --pid, -o and --job have no variable.

Other commands:
  gpu-tracker gpus        Show the GPUs of this machine. Also: gpu-tracker ls.
  gpu-tracker available   List free GPUs, claim them, or run a command on them.
  gpu-tracker atopgpud    Serve GPU statistics to atop. Also: atopgpud.
  gpu-tracker idle        Run programs on GPUs while nobody uses them.
  gpu-tracker agent       Serve GPU figures to dashboards and Prometheus over HTTP.
  gpu-tracker dashboard   Show the GPUs of many machines on one page.
  gpu-tracker probe       Trace the CUDA calls of a program from outside.
  gpu-tracker show        Show a recording, or the result of a killed run.
  gpu-tracker export      Write a recording in another format.
  gpu-tracker runs        List the runs that were kept or killed.
  gpu-tracker report      Make an HTML page of a recording.
  gpu-tracker plot        Draw a recording as a picture.
  gpu-tracker watch       Show a run or a process live.
  gpu-tracker merge       Make one report of all ranks of a job.
  gpu-tracker compare     Compare recordings of groups of runs.
  gpu-tracker region      Run a command as a named step of a tracked script.
  gpu-tracker sub-track   Read the code blocks of gpu-tracker 5.
  gpu-tracker explain     Explain a message by the name at its end.
  gpu-tracker completion  Print the completion script of a shell.
  gpu-tracker grant-devices  Give a process's control group access to the GPUs.
                          Each has a --help of its own.

The command keeps its standard input, output, error and signals. Exit codes: the
command's own; 128 + n if signal n ended it; 127 if it was not found; 126 if it
could not be started; 125 if gpu-tracker failed; 124 if a limit ended it. If
gpu-tracker cannot measure, it warns and still runs the command.
"""


def _entry(option: Option) -> str:
    """Return the lines of an option in the help, as docopt reads them."""
    text = option.help
    if option.default:
        default = option.default
        text += f' [default: {default:g}]' if isinstance(default, float) else f' [default: {default}]'
    line = f'  {", ".join(option.flags)}' + (f'=<{option.value}>' if option.value else '')
    line = f'{line:<{_COLUMN - 2}}  '
    lines = []
    for word in text.replace('[default: ', '[default:\xa0').split(' '):
        if len(line) + len(word) > _WIDTH:
            lines.append(line.rstrip())
            line = ' ' * _COLUMN
        line += f'{word} '
    return '\n'.join([*lines, line.rstrip()]).replace('\xa0', ' ')


_COLUMN, _WIDTH = 26, 84
"""Columns in which explanations begin, and lines end."""
_COMMON = ('tracking_file', 'sleep_time', 'ram_unit')
_ENTRIES = {option.name: _entry(option) for option in OPTIONS if option.flags}
TEXT = _TEXT.format(
    common='\n'.join(_ENTRIES[name] for name in _COMMON),
    of_tracker='\n'.join(entry for name, entry in _ENTRIES.items() if name not in _COMMON),
)

_CAN_END_TREES = sys.platform == 'linux'
"""Whether a command can be ended with all its descendants."""


OPTION_OF = {option.name: option.flag for option in OPTIONS} | {'process_id': '--pid'}


def overview() -> str:
    """Return the text printed without arguments: examples and commands."""
    blocks = dict(blocks_of(TEXT))
    lines = (line for heading in ('Examples', 'Other commands') for line in (f'{heading}:', *blocks[heading], ''))
    return '\n'.join([*lines, "Try 'gpu-tracker --help'."])


def run(values: options.Values) -> int:
    """Track the command or process in ``values``, write the report, and return the exit code."""
    request = read_request(values)
    is_csv = request.parameters.get('tracking_file', '').endswith('.csv')
    if is_csv and not request.live and not request.parameters['disable_logs']:
        output.complain(
            f'{values.name("--tf")}: gpu-tracker show and report cannot read a CSV file, which has only samples'
        )
    if request.live:
        from gpu_tracker.cli import live  # noqa: PLC0415 (each way to track imports only what it needs)

        return live.track(request, _track)
    return _track(request)


def _track(request: Request, view: LiveView | None = None) -> int:
    """Track the request, and show it in ``view`` meanwhile."""
    if request.process_id is not None:
        from gpu_tracker.cli import track_process  # noqa: PLC0415 (as above)

        return track_process.track(request, request.process_id, view)
    if hasattr(os, 'fork') and hasattr(signal, 'sigwaitinfo') and (request.limits is None or _CAN_END_TREES):
        from gpu_tracker.cli import track_command  # noqa: PLC0415

        return track_command.track(request, view)
    from gpu_tracker.cli import portable  # noqa: PLC0415

    return portable.track(request, view)
