"""``gpu-tracker idle``: runs programs on GPUs while nobody uses them."""

from __future__ import annotations

import os
import sys
import time
from typing import TYPE_CHECKING

from gpu_tracker.cli import options, output, screen
from gpu_tracker.cli.output import FAILURE
from gpu_tracker.errors import GpuTrackerError, ParameterError

if TYPE_CHECKING:
    from gpu_tracker.idle.config.configuration_file import Reading
    from gpu_tracker.idle.config.idle_settings import Settings

TEXT = """
Runs programs on GPUs while nobody uses them, and stops them as soon as somebody does.
Configuration files of gpu_mon work unchanged.

Usage:
  gpu-tracker idle [--config=<file>] [--check] [--dry-run] [--devices=<folder>]
                   [--socket=<path>] [--verbose]
  gpu-tracker idle --print-config
  gpu-tracker idle status [--format=<format> | --json] [--socket=<path>]

Commands:
  status                Show the state of the running monitor: which GPUs are idle or
                        busy, since when and by whom, and what runs on them.

Options:
  -c --config=<file>    Read the configuration from this file.
                        [default: ~/.config/gpu_mon.conf]
  --check               Only check the configuration file. Exit code 0 means that
                        the file is valid.
  --print-config        Print an example configuration file that explains all keys.
  --dry-run             Start and stop no programs. The log says what the monitor
                        would do.
  -f --format=<format>  For the command status: print text (a table) or json.
                        [default: text]
  --json                The same as --format=json.
  --devices=<folder>    Look for the GPU device files in this folder.
                        [default: /dev]
  --socket=<path>       The monitor and the command status communicate through this
                        Unix socket. Default: idle.sock in the user's runtime
                        folder.
  --verbose             Log debug messages too.
  -h --help             Print this text.
  -v --version          Print the version.

Messages go to standard error. SIGHUP reloads the configuration file. SIGTERM and
Ctrl-C stop the programs and then the monitor. Exit code 125: the configuration
file has errors, or another monitor watches the same GPUs. The command status exits
with code 125 if no monitor answers.
"""


def run(values: options.Values) -> int:
    """Do what ``values`` ask for, and return the exit code."""
    if values['--print-config']:
        from gpu_tracker.idle.config.key_table import template  # noqa: PLC0415 - not where something else is wanted

        return output.print_text(template())
    if sys.platform != 'linux':
        raise GpuTrackerError('idle runs on Linux only')
    if values['status']:
        as_json = options.chosen_format(values, ('text', 'json')) == 'json'
        return _show_status(_socket(values['--socket']), as_json=as_json)
    path = _config_path(str(values['--config']))
    settings = _settings(path)
    if settings is None:
        return FAILURE
    if values['--check']:
        return output.print_text(f'{path}: no errors\n')
    devices = str(values['--devices'])
    if not os.path.isdir(devices):
        raise ParameterError('--devices', devices, 'a folder that exists')
    return _watch(path, settings, values)


def _watch(path: str, settings: Settings, values: options.Values) -> int:
    from gpu_tracker.idle import idle_monitor  # noqa: PLC0415 - as above
    from gpu_tracker.idle.monitor_log import open_log  # noqa: PLC0415

    given = idle_monitor.Options(
        config=path,
        devices=str(values['--devices']),
        socket=None if values['--dry-run'] and values['--socket'] is None else _socket(values['--socket']),
        dry_run=bool(values['--dry-run']),
    )
    return idle_monitor.run(settings, given, open_log(verbose=bool(values['--verbose'])))


def _settings(path: str) -> Settings | None:
    """Return the configuration; None after printing the errors of the file."""
    from gpu_tracker.idle.config import configuration_file  # noqa: PLC0415 - as above

    reading: Reading = configuration_file.read(path)
    for warning in reading.warnings:
        output.complain(f'warning: {warning.describe(path)}')
    for error in reading.errors:
        output.complain(error.describe(path))
    return reading.settings


def _show_status(socket: str, *, as_json: bool) -> int:
    from gpu_tracker.idle import status, status_socket, status_text  # noqa: PLC0415 - as above

    text = status_socket.ask(socket)
    if not as_json:
        text = status_text.status_text(status.from_json(text), time.time(), screen.width())
    return output.print_text(f'{text}\n')


def _config_path(given: str) -> str:
    if not given:
        raise ParameterError('--config', given, 'the path of a configuration file')
    path = os.path.expanduser(given)
    try:
        return os.path.abspath(path)  # SIGHUP reads it again when the working folder may have gone
    except FileNotFoundError:
        return path  # the working folder has gone already


def _socket(given: object) -> str:
    from gpu_tracker.idle.run_folder import own_socket_path  # noqa: PLC0415 - as above

    if given == '':
        raise ParameterError('--socket', given, 'the path of a Unix socket')
    return str(given) if given is not None else own_socket_path()
