"""``gpu-tracker agent``: tells of this machine's GPUs over HTTP."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from gpu_tracker import __version__
from gpu_tracker.cli import options, serving
from gpu_tracker.errors import GpuTrackerError, ParameterError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gpu_tracker.fleet.web.access import Access

_PORT = 1080
_INTERVALS = (0.1, 3600.0)

TEXT = f"""
Serves figures of this machine's GPUs over HTTP: to dashboards, to Prometheus and to
nvgpu's masters. It runs until SIGTERM, and reads the GPUs in the background.

Usage:
  gpu-tracker agent [options]

Options:
{serving.option_lines(_PORT)}\
  --token-file=<file>   Serve only clients that know the token in this file. nvgpu's
                        masters know none.
  --st, --interval=<s>  The time between two readings of the GPUs, from {_INTERVALS[0]:g} to {_INTERVALS[1]:g}
                        seconds. It grows to 6 seconds where nobody has asked for a
                        minute. [default: 2]
  --config=<file>       The hosts of /cluster_status: nvgpu's file with AGENTS =
                        ['self', 'http://node02:1080', ...], or a dashboard's TOML.
                        AGENTS = [] switches the page off. Default: the file in
                        NVGPU_CLUSTER_CFG, else this machine only.
{serving.COMMANDS_LINES}  --export-processes    Export the GPU memory of each process to Prometheus.
  --activity            Export how busy the parts of NVIDIA GPUs are, from Hopper on: SM
                        activity, occupancy, tensor cores, memory bandwidth.
  --export-users        Export user names to Prometheus.
  --cuda                Export the CUDA calls of each process to Prometheus: launches,
                        memory, failed calls. Needs --export-processes, libbpf and the
                        right to load BPF programs.
  --jobs=<folder>       Also report the ranks of jobs on this machine. This is the folder
                        of gpu-tracker --job=<folder>, or a folder of such folders.
  --otlp=<url>          Also push the figures of GPUs and jobs over HTTP to this
                        OpenTelemetry collector, such as http://localhost:4318; env takes
                        the URL from OTEL_EXPORTER_OTLP_ENDPOINT. Needs the extra otel.
  -h --help             Print this text.
  -v --version          Print the version.

Paths: / is a page, /api/v1/host is JSON, /metrics is for Prometheus, /gpu_status and
/cluster_status are those of nvgpu, and /healthz needs no token. Messages go to
standard error. SIGHUP reloads certificates, the token and the hosts. Exit code 125:
an option is wrong, or the port is taken.
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
    config = values['--config']
    jobs = _folder(values['--jobs'])
    otlp = None if values['--otlp'] is None else otlp_endpoint(str(values['--otlp']), os.environ)

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
            otlp=otlp,
        )
        return settings, serving.access(values, serving.token(values['--token-file']), '--token-file')

    settings, access = read()
    return serving.served(lambda complain: serve(settings, access, __version__, complain, read), access)


def _folder(given: object) -> str | None:
    """Return the absolute path of the folder with jobs; it need not be there yet, as where it is mounted later."""
    if given is None:
        return None
    if not given:
        raise ParameterError('--jobs', given, 'the path of a folder')
    if sys.platform == 'win32':
        raise GpuTrackerError('--jobs needs Linux or another POSIX system')
    return os.path.abspath(os.path.expanduser(str(given)))


_FROM_ENVIRONMENT = 'env'
_PATH_OF_METRICS = 'v1/metrics'
_OTLP_ACCEPTED = "a URL that begins with http:// or https://, such as http://localhost:4318, or 'env'"


def otlp_endpoint(given: str, environment: Mapping[str, str]) -> str:
    """Return the URL to which metrics are pushed, as OpenTelemetry's exporters find it.

    The path of metrics is appended to a URL without a path, and always to that of ``OTEL_EXPORTER_OTLP_ENDPOINT``.

    :raises ParameterError: It is no such URL, or the environment has none.
    """
    if given != _FROM_ENVIRONMENT:
        url = _checked_url('--otlp', given)
        return url if urlsplit(url).path.strip('/') else f'{url.rstrip("/")}/{_PATH_OF_METRICS}'
    protocol = environment.get('OTEL_EXPORTER_OTLP_METRICS_PROTOCOL') or environment.get('OTEL_EXPORTER_OTLP_PROTOCOL')
    if protocol not in {None, '', 'http/protobuf'}:
        raise ParameterError('OTEL_EXPORTER_OTLP_PROTOCOL', protocol, 'http/protobuf, which is what --otlp speaks')
    own = environment.get('OTEL_EXPORTER_OTLP_METRICS_ENDPOINT')
    if own:
        return _checked_url('OTEL_EXPORTER_OTLP_METRICS_ENDPOINT', own)
    base = environment.get('OTEL_EXPORTER_OTLP_ENDPOINT')
    if not base:
        raise ParameterError('--otlp', given, 'a URL where OTEL_EXPORTER_OTLP_ENDPOINT is not set')
    return f'{_checked_url("OTEL_EXPORTER_OTLP_ENDPOINT", base).rstrip("/")}/{_PATH_OF_METRICS}'


def _checked_url(option: str, given: str) -> str:
    try:
        parts = urlsplit(given)
        is_good = parts.scheme in {'http', 'https'} and bool(parts.hostname) and parts.port != 0
    except ValueError:  # a port that is none, or half an IPv6 address
        is_good = False
    if not is_good or parts.query or parts.fragment:
        shown = f'...@{given.rpartition("@")[2]}' if '@' in given else given  # a password may stand before it
        raise ParameterError(option, shown, _OTLP_ACCEPTED)
    return given
