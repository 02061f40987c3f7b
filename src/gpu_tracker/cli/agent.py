"""``gpu-tracker agent``: serves the figures of this machine's GPUs over HTTP."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

from gpu_tracker import __version__
from gpu_tracker.cli import options, serving
from gpu_tracker.errors import GpuTrackerError, ParameterError

if TYPE_CHECKING:
    from gpu_tracker.fleet.web.access import Access

_PORT = 1080
_INTERVALS = (0.1, 3600.0)

TEXT = f"""
Serves figures of this machine's GPUs over HTTP: to dashboards, to Prometheus and to
nvgpu's masters. The agent runs until SIGTERM, and reads the GPUs in the background.

Usage:
  gpu-tracker agent [options]

Options:
{serving.option_lines(_PORT)}\
  --token-file=<file>   Serve only clients that send the token in this file. The
                        master program of nvgpu cannot send a token.
  --make-token=<file>   Like --token-file. If the file does not exist, create
                        the file with a new token.
  --st, --interval=<s>  Read the GPUs at this interval, from {_INTERVALS[0]:g} to {_INTERVALS[1]:g} seconds. If
                        no request comes for a minute, the agent waits at least 6
                        seconds between readings. [default: 2]
  --config=<file>       Read the hosts for the page /cluster_status from this file.
                        The file is the TOML file of a dashboard, or has nvgpu's
                        format, such as AGENTS = ['self', 'http://node02:1080'].
                        AGENTS = [] switches the page off. Default: the file that
                        the environment variable NVGPU_CLUSTER_CFG names. Without
                        this variable, the page shows only this machine.
{serving.COMMANDS_LINES}  --export-processes    Export the GPU memory of each process to Prometheus.
  --activity            Export the activity of Hopper and newer NVIDIA GPUs: use of
                        SMs, occupancy, tensor cores and memory bandwidth.
  --export-users        Export the number of processes and the GPU memory of each
                        user to Prometheus.
  --cuda                Export the CUDA calls of each process to Prometheus: kernel
                        launches, memory and failed calls. This needs
                        --export-processes, the library libbpf and the right to load
                        BPF programs.
  --jobs=<folder>       Also report the ranks that run on this machine with
                        gpu-tracker --job=<folder>. Give the same folder here, or a
                        folder that contains several job folders.
  -h --help             Print this text.
  -v --version          Print the version.

Paths: / is a page for browsers, /api/v1/host is JSON, /metrics is for Prometheus,
/gpu_status and /cluster_status are for nvgpu, and /healthz needs no token. Messages go
to standard error. SIGHUP reloads certificates, the token and the hosts. Exit code 125:
an option is wrong, or another program uses the port.
"""


def run(values: options.Values) -> int:
    """Serve as ``values`` ask for, and return the exit code."""
    if values['--cuda'] and not values['--export-processes']:
        raise options.UsageError('--cuda needs --export-processes')
    interval = options.seconds('--interval', str(values['--interval']), _INTERVALS)
    with serving.extra_needed('agent'):
        from gpu_tracker.fleet.agent.run import Settings  # noqa: PLC0415 - as above
        from gpu_tracker.fleet.agent.run import run as serve  # noqa: PLC0415 - not where only help is wanted
        from gpu_tracker.fleet.config.read import read_cluster  # noqa: PLC0415 - as above
    if values['--token-file'] is not None and values['--make-token'] is not None:
        raise options.UsageError('use either --token-file or --make-token, not both')
    option = '--token-file' if values['--make-token'] is None else serving.MAKE_TOKEN
    path = values[option]
    config = values['--config']
    jobs = _folder(values['--jobs'])

    def read() -> tuple[Settings, Access]:
        settings = Settings(
            cluster=read_cluster(None if config is None else str(config)),
            interval=interval,
            export_processes=bool(values['--export-processes']),
            watches_activity=bool(values['--activity']),
            export_users=bool(values['--export-users']),
            commands=serving.commands(values),
            probes=('cuda',) if values['--cuda'] else (),
            jobs=jobs,
        )
        return settings, serving.access(values, serving.token(path, option), option)

    settings, access = read()
    return serving.served(lambda complain: serve(settings, access, __version__, complain, read), access)


def _folder(given: object) -> str | None:
    """Return the absolute path of the folder of jobs. It may not exist yet, if it is mounted later."""
    if given is None:
        return None
    if not given:
        raise ParameterError('--jobs', given, 'the path of a folder')
    if sys.platform == 'win32':
        raise GpuTrackerError('--jobs needs Linux or another POSIX system')
    return os.path.abspath(os.path.expanduser(str(given)))
