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
  -e --execute=<command>  A whole shell command, in quotes: pipes, redirections,
                          && and the like work in it. Without -e, a program with
                          its arguments stands behind the options, and is passed on
                          untouched; behind -- its name may be that of a command of
                          gpu-tracker, such as report, or begin with a dash.
  --pid=<pid>             Track a process that runs already, until it ends or
                          Ctrl-C ends the tracking: its ID, a whole number.
  -o --output=<file>      Where to write the report: a path, or - for standard
                          output, the default.
  -f --format=<format>    How to write the report: text, json, summary, which has
                          twelve lines at most, or csv: one line a run, below one
                          with the names of the figures. [default: text]
{common}
  --time-limit=<time>     End the command with all that it has started after this
                          time, such as 90 (seconds), 30m or 1.5h. See Limits below.

More options:
  --json                  The same as --format=json.
  --append                Add the line of --format=csv to those in the file of
                          --output: a table of runs.
  --tconfig=<file>        A JSON file with parameters of Tracker, as for gpu-tracker
                          5. Options go before it.
{of_tracker}
  --cgroup                Give the command a control group of its own, where one can
                          be had (Linux), and report what that has used: CPU time,
                          memory with page cache, storage, processes. What the
                          command leaves running is ended with it then.
  --cpu-limit=<time>      The same after so much CPU time of all of them together.
  --memory-limit=<size>   The same where they have more RAM together, such as 2GB or
                          512MiB: a soft limit, checked at each sample; a hard
                          one with --cgroup, kept by the kernel.
  --gpu-memory-limit=<size>  The same of GPU memory.
  --kill-after=<time>     Send SIGKILL so long after SIGTERM. Default: 10s.
  --live                  Show what it uses while it runs, on a terminal to which it
                          does not write: redirect its output, as in > out.txt 2>&1.
  --verbose               Print also how the run was sampled: samples, late and
                          skipped ones, their cost, and why figures may be too low.
  -q --quiet              Print nothing but errors and the report: no warnings, and
                          not how the command has ended.
  -h --help               Print this text.
  -v --version            Print the version.

In the paths of -o, --record and --job, {{job}}, {{rank}}, {{node}} and {{pid}} stand for
what the launcher says (Slurm, mpirun, torchrun and others) and for the process.

Environment variables set defaults: GPU_TRACKER_FORMAT=json, GPU_TRACKER_QUIET=1,
GPU_TRACKER_SLEEP_TIME=0.1. A default that does not fit other options is ignored.
-e, --pid, -o and --job have no variable.

Limits: past one, the command and all that it has started, daemons too, get SIGTERM,
and SIGKILL after --kill-after. The report is complete and names the limit. Those of
CPU and memory are soft: they are checked at each sample, see --sleep-time.

Other commands:
  gpu-tracker gpus        Show the GPUs of this machine; in short, gpu-tracker ls.
  gpu-tracker available   Name those that are free, claim them, run a command on
                          them.
  gpu-tracker atopgpud    Tell atop of them, as a daemon; in short, atopgpud.
  gpu-tracker idle        Run programs on them while nobody uses them.
  gpu-tracker agent       Tell dashboards and Prometheus of them, over HTTP.
  gpu-tracker dashboard   Show those of many machines on one page.
  gpu-tracker probe       Show what a program does with CUDA, from outside.
  gpu-tracker show        Show a recording; export writes it in other formats.
  gpu-tracker runs        List runs that were killed; show has what they used.
  gpu-tracker report      Make a page of a recording; plot draws it for print.
  gpu-tracker watch       Show one whose run goes on, or a running process, live.
  gpu-tracker merge       Make one report of all ranks of a job.
  gpu-tracker compare     Compare recordings of groups of runs.
  gpu-tracker region      Run a command as a named step of a tracked script.
  gpu-tracker sub-track   Read the code blocks of gpu-tracker 5.
  gpu-tracker explain     Explain a message, by the name that it ends with.
  gpu-tracker completion  Print the script with which a shell completes all this.
  gpu-tracker grant-devices  Let the control group of a process open the GPUs.
                          Each has a --help of its own.

The command keeps its standard input, output and error, and its signals. The exit
code is the command's own, 128 + n where signal n ended it, 127 where it was not
found, 126 where it could not be started, 125 where gpu-tracker itself failed, and
124 where a limit has ended the command. Where gpu-tracker cannot measure, it runs
the command all the same, with a warning.
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
"""Where the explanations of options begin, and where their lines end."""
_COMMON = ('tracking_file', 'sleep_time', 'ram_unit')
_ENTRIES = {option.name: _entry(option) for option in OPTIONS if option.flags}
TEXT = _TEXT.format(
    common='\n'.join(_ENTRIES[name] for name in _COMMON),
    of_tracker='\n'.join(entry for name, entry in _ENTRIES.items() if name not in _COMMON),
)

_CAN_END_TREES = sys.platform == 'linux'
"""Whether the way to track a command with its signals knows how to end it with all its descendants."""


OPTION_OF = {option.name: option.flag for option in OPTIONS} | {'process_id': '--pid'}


def overview() -> str:
    """Return what is printed without arguments: examples and the commands."""
    blocks = dict(blocks_of(TEXT))
    lines = (line for heading in ('Examples', 'Other commands') for line in (f'{heading}:', *blocks[heading], ''))
    return '\n'.join([*lines, "Try 'gpu-tracker --help'."])


def run(values: options.Values) -> int:
    """Track what ``values`` ask for, write the report, and return the exit code."""
    request = read_request(values)
    is_csv = request.parameters.get('tracking_file', '').endswith('.csv')
    if is_csv and not request.live and not request.parameters['disable_logs']:
        output.complain(f'{values.name("--tf")}: a CSV file has the samples alone; show and report read no such file')
    if request.live:
        from gpu_tracker.cli import live  # noqa: PLC0415 (each way to track imports only what it needs)

        return live.track(request, _track)
    return _track(request)


def _track(request: Request, view: LiveView | None = None) -> int:
    """Track what ``request`` asks for, and show it in ``view`` meanwhile."""
    if request.process_id is not None:
        from gpu_tracker.cli import track_process  # noqa: PLC0415 (as above)

        return track_process.track(request, request.process_id, view)
    if hasattr(os, 'fork') and hasattr(signal, 'sigwaitinfo') and (request.limits is None or _CAN_END_TREES):
        from gpu_tracker.cli import track_command  # noqa: PLC0415

        return track_command.track(request, view)
    from gpu_tracker.cli import portable  # noqa: PLC0415

    return portable.track(request, view)
