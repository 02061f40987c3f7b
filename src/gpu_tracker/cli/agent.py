"""``gpu-tracker agent``: tells of this machine's GPUs over HTTP."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpu_tracker import __version__
from gpu_tracker.cli import options, output, serving

if TYPE_CHECKING:
    from gpu_tracker.fleet.web.access import Access

_PORT = 1080
_INTERVALS = (0.1, 3600.0)

TEXT = f"""
Serves the GPUs of this machine over HTTP: to dashboards, to nvgpu's masters and to
Prometheus. It reads them in the background, whoever asks, until SIGTERM.

Usage:
  gpu-tracker agent [options]

Options:
{serving.option_lines(_PORT)}\
  --token-file=<file>   Serve only clients that know the token in this file. nvgpu's
                        masters know none.
  --interval=<s>        The time between two readings of the GPUs, from {_INTERVALS[0]:g} to {_INTERVALS[1]:g}
                        seconds. It grows to 6 seconds where nobody has asked for a
                        minute. [default: 2]
  --config=<file>       The hosts of /cluster_status: nvgpu's file with AGENTS =
                        ['self', 'http://node02:1080', ...], or a dashboard's TOML.
                        AGENTS = [] switches the page off. Default: the file that
                        NVGPU_CLUSTER_CFG names; without one, this machine.
{serving.COMMANDS_LINES}  --export-processes    Tell Prometheus the GPU memory of each process.
  --export-users        Tell Prometheus the names of users.
  --cuda                Tell Prometheus what each process does with CUDA: launches,
                        memory, failed calls. Needs --export-processes, libbpf
                        and the right to load BPF programs.
  -h --help             Print this text.
  --version             Print the version.

/ is a page, /api/v1/host is JSON, /gpu_status and /cluster_status are as nvgpu has
them, /metrics is for Prometheus, and /healthz answers everybody. Messages go to
standard error. SIGHUP reads certificates, the token and the hosts again. Exit code
125: an option is wrong, or the port is taken.
"""


def run(arguments: list[str]) -> int:
    """Serve as ``arguments`` ask for, and return the exit code."""
    values = options.parse(TEXT, f'gpu-tracker {__version__}', arguments[1:], arguments[0])
    if isinstance(values, str):
        return output.print_text(values)
    if values['--cuda'] and not values['--export-processes']:
        raise options.UsageError('--cuda needs --export-processes')
    interval = options.seconds('--interval', str(values['--interval']), _INTERVALS)
    with serving.extra_needed('agent'):
        from gpu_tracker.fleet.agent.run import Settings  # noqa: PLC0415 - as above
        from gpu_tracker.fleet.agent.run import run as serve  # noqa: PLC0415 - not where only help is wanted
        from gpu_tracker.fleet.config.read import read_cluster  # noqa: PLC0415 - as above
    config = values['--config']

    def read() -> tuple[Settings, Access]:
        settings = Settings(
            cluster=read_cluster(None if config is None else str(config)),
            interval=interval,
            export_processes=bool(values['--export-processes']),
            export_users=bool(values['--export-users']),
            commands=serving.commands(values),
            probes=('cuda',) if values['--cuda'] else (),
        )
        return settings, serving.access(values, serving.token(values['--token-file']), '--token-file')

    settings, access = read()
    return serving.served(lambda complain: serve(settings, access, __version__, complain, read), access)
