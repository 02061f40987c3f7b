"""The command line: each command is one module here, and nothing is measured here."""

from __future__ import annotations

import sys

TYPE_CHECKING = False  # typing's own costs its import
if TYPE_CHECKING:
    from types import ModuleType

    from gpu_tracker.cli.options import Values

# The first argument picks a command: a module of this folder with its help, TEXT, and a function run(values) that
# returns the exit code. OPTION_OF, if a module has it, names the options of parameters. Without one of these names the
# arguments belong to the tracking of a command or process.
COMMANDS = {
    'agent': 'agent',
    'atopgpud': 'atopgpud',
    'available': 'available',
    'compare': 'compare',
    'completion': 'completion',
    'dashboard': 'dashboard',
    'explain': 'explain',
    'export': 'export',
    'gpus': 'gpus',
    'grant-devices': 'grant_devices',
    'idle': 'idle',
    'ls': 'gpus',
    'merge': 'merge',
    'plot': 'plot',
    'probe': 'probe',
    'region': 'region',
    'report': 'report',
    'runs': 'runs',
    'show': 'show',
    'sub-track': 'sub_track',
    'watch': 'watch',
}
DEFAULT_COMMAND = 'track'


def main(arguments: list[str] | None = None) -> int:
    """Run ``gpu-tracker`` with ``arguments``, by default ``sys.argv``, and return its exit code."""
    if arguments is None:
        arguments = sys.argv[1:]
    try:
        return _run(arguments)
    except KeyboardInterrupt:
        return _end_by_ctrl_c()


def _end_by_ctrl_c() -> int:
    """End by the signal itself. After Ctrl-C, a shell ends its loop only if the program did so."""
    import os  # noqa: PLC0415
    import signal  # noqa: PLC0415

    if sys.platform != 'win32':
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGINT)
    return 128 + signal.SIGINT


def _run(arguments: list[str]) -> int:
    """Run the command in ``arguments``. Every error becomes one line for the user."""
    from importlib import import_module  # noqa: PLC0415 (inside main's care, so that Ctrl-C never shows a traceback)

    from gpu_tracker.cli import options, output  # noqa: PLC0415 (as above)
    from gpu_tracker.errors import GpuTrackerError  # noqa: PLC0415 (as above)

    output.reserve_closed_streams()
    if arguments[:1] in (['-h'], ['--help']) and arguments[1:] and arguments[1] in COMMANDS:
        arguments = [arguments[1], '--help']
    command = arguments[0] if arguments and arguments[0] in COMMANDS else ''
    try:
        module = import_module(f'gpu_tracker.cli.{COMMANDS.get(command, DEFAULT_COMMAND)}')
        if not arguments:
            output.say(module.overview())
            return output.FAILURE
        values = options.parse(module.TEXT, arguments[1 if command else 0 :], command)
        if isinstance(values, str):
            return output.print_text(values)
        code = _run_module(module, values)
    except options.UsageError as error:
        output.complain(f"{error}\nTry 'gpu-tracker{command and ' '}{command} --help'.")
    except GpuTrackerError as error:
        from gpu_tracker.system.terminal_text import printable  # noqa: PLC0415 (as above)

        output.complain('\n'.join(map(printable, str(error).split('\n'))))
    except Exception as error:  # noqa: BLE001 (the last resort: a traceback helps no user)
        output.complain(f'internal error: {type(error).__name__}: {error}')
    else:
        return code
    return output.FAILURE


def _run_module(module: ModuleType, values: Values) -> int:
    from gpu_tracker.errors import ParameterError  # noqa: PLC0415 (as above)

    try:
        code: int = module.run(values)
    except ParameterError as error:
        raise values.error_of(error, getattr(module, 'OPTION_OF', {})) from error
    return code
