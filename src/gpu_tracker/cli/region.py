"""``gpu-tracker region``: runs a command as a named step of a tracked script."""

from __future__ import annotations

import os
import signal
import sys
from typing import TYPE_CHECKING

from gpu_tracker.cli import options, output
from gpu_tracker.cli.output import FAILURE
from gpu_tracker.errors import ParameterError
from gpu_tracker.regions import log
from gpu_tracker.running.held_command import start_fault

if TYPE_CHECKING:
    from collections.abc import Mapping

TEXT = """
Runs a command as a named step of a script that gpu-tracker tracks.

Usage:
  gpu-tracker region [--attribute=<k=v>]... <name> -- <command> [<argument>...]
  gpu-tracker region --shell

Options:
  -a --attribute=<k=v>   Add this label to the step, such as epoch=3. You can
                         repeat this option.
  --shell                Print shell functions that mark steps without starting
                         a process for each step. To use them, run: eval
                         "$(gpu-tracker region --shell)"
  -h --help              Print this text.
  -v --version           Print the version.

If the script is not tracked, the command replaces gpu-tracker (exec). Otherwise
gpu-tracker waits for the command and forwards signals. Exit codes: the command's
own; 128 + n if signal n ended it; 127 if it was not found; 126 if it could not be
started; 125 if gpu-tracker failed.
"""


def run(values: options.Values) -> int:
    """Do what ``values`` ask for, and return the exit code."""
    if values['--shell']:
        return _print_functions()
    program = values['<command>']
    words = program if isinstance(program, list) else []
    attributes = _attributes(values['--attribute'])
    fault = start_fault(words[0], os.get_exec_path())
    if fault is not None:
        return output.not_started(words[0], fault)
    if log.find() is None:
        return _become(words)
    run_it = _run if hasattr(signal, 'sigwaitinfo') else _run_portably
    return run_it(str(values['<name>']), attributes, words)


def _print_functions() -> int:
    if sys.platform != 'linux':
        output.complain('region --shell runs on Linux only')
        return FAILURE
    from gpu_tracker.cli.region_shell import functions  # noqa: PLC0415 - not where a command runs

    return output.print_text(functions())


def _attributes(given: object) -> dict[str, object]:
    """Return the attributes of ``--attribute``, with numbers parsed."""
    attributes: dict[str, object] = {}
    for text in given if isinstance(given, list) else []:
        key, equals, value = text.partition('=')
        if not key or not equals:
            raise ParameterError('--attribute', text, 'KEY=VALUE, such as epoch=3')
        attributes[key] = _number_or_text(value)
    return attributes


def _number_or_text(value: str) -> object:
    for kind in (int, float):
        try:
            number = kind(value.replace('_', '?'))
        except ValueError:
            continue
        return number
    return value


def _become(words: list[str]) -> int:
    """Replace this process by the command, because nothing is recorded; return only if that fails."""
    if sys.platform == 'win32':
        import subprocess  # noqa: PLC0415 - where a process cannot become another

        return subprocess.run(words, check=False).returncode
    from gpu_tracker.running.held_command import execute, restore_signals  # noqa: PLC0415 - POSIX only

    restore_signals()
    try:
        execute(words)
    except OSError as error:
        return output.not_started(words[0], error)
    return FAILURE


def _run(name: str, attributes: Mapping[str, object], words: list[str]) -> int:
    """Run the command as a region of its own process, and return the exit code. Linux only."""
    if sys.platform == 'win32':
        raise NotImplementedError
    from gpu_tracker.regions.commands import CommandRegion  # noqa: PLC0415 - not where nothing is recorded
    from gpu_tracker.running import supervise  # noqa: PLC0415 - POSIX only
    from gpu_tracker.running.held_command import HeldCommand  # noqa: PLC0415 - as above

    region = CommandRegion(name, attributes)
    os.environ[log.REGION_VARIABLE] = str(region.id)
    try:
        command = HeldCommand(words)
    except OSError as error:
        output.complain(f'the region {name!r} is not recorded: {output.reason(error)}')
        return _become(words)
    supervise.hold_signals()
    region.begin(command.process_id)
    failure = command.release()
    if failure is not None:
        os.waitpid(command.process_id, 0)
        code = output.not_started(words[0], failure)
        region.end(f'exit status {code}', None)
        return code
    try:
        supervise.wait_for_end(command.process_id)
    except Exception as error:  # noqa: BLE001 - whatever it is, a command that runs is never abandoned
        output.complain(f'internal error: {type(error).__name__}: {error}')
        supervise.wait_plainly(command.process_id)
    _, status, usage = os.wait4(command.process_id, 0)
    code = os.waitstatus_to_exitcode(status)
    region.end(_how_it_ended(code), usage.ru_maxrss)
    supervise.let_signals_through()
    return 128 - code if code < 0 else code


def _run_portably(name: str, attributes: Mapping[str, object], words: list[str]) -> int:
    """Run a step on other systems. The region begins after the process."""
    from gpu_tracker.cli import portable  # noqa: PLC0415 - where a command runs
    from gpu_tracker.regions.commands import CommandRegion  # noqa: PLC0415 - not where nothing is recorded

    region = CommandRegion(name, attributes)
    os.environ[log.REGION_VARIABLE] = str(region.id)
    signals = portable.PassedSignals()
    try:
        command = portable.start(words)
    except OSError as error:
        code = output.not_started(words[0], error)
        region.begin(os.getpid())
        region.end(f'exit status {code}', None)
        return code
    region.begin(command.pid)
    signals.to(command.send_signal)
    code = command.wait()
    region.end(_how_it_ended(code), None)
    return 128 - code if code < 0 else code


def _how_it_ended(code: int) -> str | None:
    """Return why a command failed; None if it succeeded."""
    if code >= 0:
        return f'exit status {code}' if code else None
    try:
        return f'signal {signal.Signals(-code).name}'
    except ValueError:
        return f'signal {-code}'  # a real-time signal has no name
