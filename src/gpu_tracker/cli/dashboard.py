"""``gpu-tracker dashboard``: a page of the GPUs of many machines."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpu_tracker.cli import options, serving
from gpu_tracker.fleet.config.cluster import DEADLINES, INTERVAL, INTERVALS

if TYPE_CHECKING:
    from gpu_tracker.fleet.dashboard.run import Settings
    from gpu_tracker.fleet.web.access import Access

_PORT = 1081
_PROMETHEUS_DEADLINE = 10.0

TEXT = f"""
Shows the GPUs of many machines on one live page, until SIGTERM. The dashboard reads
from agents of gpu-tracker or nvgpu, or from a Prometheus server.

Usage:
  gpu-tracker dashboard [options]

Options:
  --config=<file>       Read the hosts from this file: TOML if its name ends in
                        .toml, else a file in nvgpu's format, such as AGENTS =
                        ['self', 'http://node02:1080']. Default: the file that the
                        environment variable NVGPU_CLUSTER_CFG names. Without
                        this variable, the page shows only this machine.
  --prometheus=<url>    Read figures and history from the Prometheus server at this
                        URL instead of from agents. Example: http://localhost:9090.
  --prometheus-token-file=<file>  Send the bearer token in this file with each
                        request to Prometheus.
  --prometheus-ca=<file>  Trust the certificate authorities in this PEM file for the
                        connection to Prometheus.
  --st, --interval=<s>  Poll the hosts at this interval, from {INTERVALS[0]:g} to {INTERVALS[1]:g} seconds.
                        Default: the value in the TOML file, else {INTERVAL:g}.
  --deadline=<s>        Wait at most this number of seconds for the hosts' answers
                        to a poll, from {DEADLINES[0]:g} to {DEADLINES[1]:g}. Default: the value in the TOML
                        file, else 1.5. With --prometheus, the default is {_PROMETHEUS_DEADLINE:g}.
{serving.COMMANDS_LINES}  --password-file=<file>  Require users to log in. Each line of this file has
                        the form name:password.
{serving.option_lines(_PORT)}\
  -h --help             Print this text.
  -v --version          Print the version.

Paths: / is the page, /sd lists the agents for Prometheus, /healthz needs no login.
Messages go to standard error. SIGHUP reloads certificates, secrets and hosts.
Exit code 125: an option or the configuration is wrong, or another program uses the
port.
"""


def run(values: options.Values) -> int:
    """Serve as ``values`` ask for, and return the exit code."""
    given = {name: None if value is None else str(value) for name, value in values.items()}
    interval = _seconds('--interval', given['--interval'], INTERVALS)
    deadline = _seconds('--deadline', given['--deadline'], DEADLINES)
    with serving.extra_needed('dashboard'):
        from gpu_tracker.fleet.dashboard.run import run as serve  # noqa: PLC0415 - not where only help is wanted

    def read() -> tuple[Settings, Access]:
        if given['--prometheus'] is None:
            settings = _polled(given, interval, deadline)
        else:
            settings = _prometheus(given['--prometheus'], given, interval, deadline)
        return settings, serving.access(values, serving.passwords(values['--password-file']), '--password-file')

    settings, access = read()
    return serving.served(lambda complain: serve(settings, access, complain, read), access)


def _seconds(option: str, given: str | None, limits: tuple[float, float]) -> float | None:
    return None if given is None else options.seconds(option, given, limits)


def _polled(given: dict[str, str | None], interval: float | None, deadline: float | None) -> Settings:
    """Return the settings for polling the hosts of a file."""
    from gpu_tracker.fleet.config.read import read_cluster  # noqa: PLC0415 - as above
    from gpu_tracker.fleet.dashboard.run import PolledHosts  # noqa: PLC0415 - as above

    for option in ('--prometheus-token-file', '--prometheus-ca'):
        if given[option] is not None:
            raise options.UsageError(f'{option} needs --prometheus')
    cluster = read_cluster(given['--config'])
    return PolledHosts(
        cluster._replace(
            interval=cluster.interval if interval is None else interval,
            deadline=cluster.deadline if deadline is None else deadline,
        ),
        serving.commands(given),
    )


def _prometheus(url: str, given: dict[str, str | None], interval: float | None, deadline: float | None) -> Settings:
    """Return the settings for a Prometheus server."""
    from gpu_tracker.fleet.dashboard.run import Prometheus  # noqa: PLC0415 - as above
    from gpu_tracker.fleet.prometheus.client import endpoint  # noqa: PLC0415 - as above

    if given['--commands'] is not None:
        raise options.UsageError(
            '--commands and --prometheus do not go together: Prometheus does not store command lines'
        )
    if given['--config'] is not None:
        raise options.UsageError('--config and --prometheus do not go together: each option defines the hosts')
    return Prometheus(
        endpoint(url, token_file=given['--prometheus-token-file'], ca_file=given['--prometheus-ca']),
        INTERVAL if interval is None else interval,
        _PROMETHEUS_DEADLINE if deadline is None else deadline,
    )
