"""``gpu-tracker atopgpud``, also installed as ``atopgpud``: the GPU statistics daemon that atop reads."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

from gpu_tracker.cli import main as run_command_line
from gpu_tracker.cli import options
from gpu_tracker.cli.output import FAILURE
from gpu_tracker.errors import GpuTrackerError, ParameterError

if TYPE_CHECKING:
    from gpu_tracker.atopgpud.daemon import Settings

TEXT = """
Serves GPU statistics to every version of atop. The daemon reads each GPU once a
second and runs until SIGTERM. Without a GPU it exits at once with code 0.

Usage:
  gpu-tracker atopgpud [options]

Options:
  -v --verbose          Log debug messages too.
  --daemon              Run in the background after a successful start.
  -f --foreground       Stay in the foreground. This is the default. The option
                        exists because unit files of atop's own daemon contain it.
  --host=<host>         Listen on this name or address for atop 2.4 to 2.12. Clients
                        can read which processes use which GPU. [default: 127.0.0.1]
  --port=<port>         Listen on this TCP port. With 0, the system chooses a free
                        port. atop itself connects only to port 59123.
                        [default: 59123]
  --socket=<name>       Listen on this abstract Unix socket for atop 2.13 and later.
                        [default: atopgpud_nvidia]
  --st, --interval=<s>  Read the GPUs at this interval, from 0.01 to 60 seconds.
                        [default: 1]
  --enable-accounting   Turn on the accounting mode of the GPUs, so that atop shows
                        how busy each process kept a GPU. This needs root. The mode
                        stays on when the daemon ends.
  -h --help             Print this text.
  --version             Print the version.

Messages go to the system log (facility daemon), or to standard error if there is no
system log. SIGHUP searches for GPUs again. Exit codes: 1 if another program uses the
port or a driver does not work, 125 for wrong options.
"""

_INTERVALS = (0.01, 60.0)
_LONGEST_NAME = 107
"""Bytes: sun_path of unix(7) has 108, and the first is null."""


def main() -> int:
    """Run ``atopgpud`` with the arguments of this process, and return its exit code."""
    return run_command_line(['atopgpud', *sys.argv[1:]])


def run(values: options.Values) -> int:
    """Serve as ``values`` ask for, and return the exit code."""
    if values['--daemon'] and values['--foreground']:
        raise options.UsageError('--daemon and --foreground do not go together')
    if sys.platform != 'linux':
        raise GpuTrackerError('atopgpud runs on Linux only')
    from gpu_tracker.atopgpud.daemon import Settings  # noqa: PLC0415 - not where only help is wanted

    settings = Settings(
        host=options.host(str(values['--host'])),
        port=options.port(str(values['--port'])),
        socket_name=_socket_name(str(values['--socket'])),
        interval=options.seconds('--interval', str(values['--interval']), _INTERVALS),
        enable_accounting=bool(values['--enable-accounting']),
    )
    return _serve(settings, verbose=bool(values['--verbose']), in_background=bool(values['--daemon']))


def _serve(settings: Settings, *, verbose: bool, in_background: bool) -> int:
    from gpu_tracker.atopgpud import daemon, detach, logs  # noqa: PLC0415 - as above
    from gpu_tracker.system import sockets  # noqa: PLC0415 - as above

    addresses = sockets.addresses(settings.host, settings.port)
    log = logs.open_log(verbose=verbose, to_background=in_background)
    if not in_background:
        return daemon.run(settings, addresses, log, lambda: None)
    link = detach.detach()
    try:
        code = daemon.run(settings, addresses, log, link.ready)
    except BaseException:
        link.failed(FAILURE)
        raise
    if code:
        link.failed(code)
    return code


def _socket_name(given: str) -> str:
    if not 0 < len(os.fsencode(given)) <= _LONGEST_NAME:
        raise ParameterError('--socket', given, f'a name of 1 to {_LONGEST_NAME} bytes')
    return given
