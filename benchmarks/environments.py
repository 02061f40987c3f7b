"""Tools that are compared, and a virtual environment for each, kept in ``.benchmarks/`` of the checkout."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import venv
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

CHECKOUT = Path(__file__).resolve().parent.parent
KEPT = CHECKOUT / '.benchmarks'
"""Environments, compiled programs and the files of runs."""

_SYSTEM = Path('/usr')
_INSTALLED = 'installed-requirement'
_LONGEST_INSTALLATION = 600
"""Seconds."""


class UnavailableError(Exception):
    """A tool cannot be installed or is not there; the message says why."""


class Tool:
    """What is compared, and how one gets it.

    :cvar name: As the tables call it.
    :cvar requirement: What pip is to install, or None for a program of the system.
    :cvar also: What pip is to install beside it.
    :cvar distribution: The distribution by whose version the tool is named.
    :cvar program: The command, which is looked up on PATH where there is no requirement.
    :cvar system_module: The module of the system's own Python that takes the place of a command.
    :cvar is_checkout: Whether it is this checkout, which is installed anew each time.
    """

    name: ClassVar[str]
    requirement: ClassVar[str | None]
    also: ClassVar[tuple[str, ...]] = ()
    distribution: ClassVar[str | None] = None
    program: ClassVar[str | None] = None
    system_module: ClassVar[str | None] = None
    is_checkout: ClassVar[bool] = False


@dataclass(frozen=True)
class Environment:
    """Where the programs of a tool are.

    :ivar name: The tool's name.
    :ivar folder: The virtual environment, or ``/usr`` for a program of the system.
    :ivar version: The version of the tool that is installed there.
    """

    name: str
    folder: Path
    version: str

    @property
    def python(self) -> str:
        """The interpreter of this environment."""
        return self.program('python')

    def program(self, name: str) -> str:
        """Return the path of a program of this environment."""
        return str(self.folder / 'bin' / name)

    def variables(self, **more: str) -> dict[str, str]:
        """Return the environment variables of a run: the caller's without ``PYTHON*``, its own programs first.

        No run of ours is kept, as other peers keep none.
        """
        variables = {name: value for name, value in os.environ.items() if not name.startswith('PYTHON')}
        variables['PATH'] = f'{self.folder / "bin"}{os.pathsep}{variables.get("PATH", os.defpath)}'
        return variables | {'GPU_TRACKER_KEEP': '0'} | more


def prepare(tool: Tool) -> Environment:
    """Return the environment of a tool, made and filled where it is not there yet.

    :raises UnavailableError: where that cannot be done.
    """
    if tool.system_module is not None:
        return _system_python(tool, tool.system_module)
    if tool.requirement is None:
        return _system_environment(tool)
    version = f'{sys.version_info.major}.{sys.version_info.minor}'
    folder = KEPT / 'environments' / version / tool.name.replace(' ', '-')
    python = folder / 'bin' / 'python'
    if not python.exists():
        shutil.rmtree(folder, ignore_errors=True)
        venv.create(folder, with_pip=True)
    note = folder / _INSTALLED
    wanted = ' '.join([tool.requirement, *tool.also])
    if tool.is_checkout or not note.exists() or note.read_text() != wanted:
        _install(str(python), tool)
        note.write_text(wanted)
    return Environment(tool.name, folder, _installed_version(str(python), tool))


def installed_here(tool: Tool) -> Environment:
    """Return the environment of this interpreter, in which the tool is installed already."""
    return Environment(tool.name, Path(sys.prefix), _installed_version(sys.executable, tool))


def _install(python: str, tool: Tool) -> None:
    words = [python, '-m', 'pip', 'install', '--quiet', '--disable-pip-version-check']
    if tool.is_checkout:
        # The version does not change between two states of the checkout, so pip has to be told to replace it.
        _run([*words, '--upgrade', str(tool.requirement)])
        _run([*words, '--force-reinstall', '--no-deps', str(tool.requirement)])
    else:
        _run([*words, '--upgrade', str(tool.requirement), *tool.also])


def _installed_version(python: str, tool: Tool) -> str:
    statement = f'import importlib.metadata as m; print(m.version({tool.distribution!r}))'
    return _run([python, '-c', statement]).strip()


def _system_environment(tool: Tool) -> Environment:
    path = shutil.which(str(tool.program))
    if path is None:
        raise UnavailableError(f'{tool.program} is not installed')
    return Environment(tool.name, Path(path).parent.parent, _system_version(path, str(tool.program)))


def _system_python(tool: Tool, module: str) -> Environment:
    """Return where the Python of the system is, which has a module that no index has."""
    if not os.path.exists(_SYSTEM / 'bin' / 'python3'):
        raise UnavailableError(f'{_SYSTEM}/bin/python3 is not there, which would have the module {module}')
    statement = f'import {module}; print({module}.__version__)'
    return Environment(tool.name, _SYSTEM, _run([str(_SYSTEM / 'bin' / 'python3'), '-c', statement]).strip())


def _system_version(path: str, package: str) -> str:
    """Return what Debian says; elsewhere the last word of what the program says, which is UNKNOWN for Debian's time."""
    if shutil.which('dpkg-query') is not None:
        try:
            return _run(['dpkg-query', '-W', '-f', '${Version}', package]).strip()
        except UnavailableError:
            pass  # it was installed in another way
    return _run([path, '--version']).splitlines()[0].split()[-1]


def _run(words: list[str]) -> str:
    """Run a preparing command and return what it prints; say the last line of what it prints where it fails."""
    variables = {name: value for name, value in os.environ.items() if not name.startswith('PYTHON')}
    try:
        done = subprocess.run(
            words,
            check=True,
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=_LONGEST_INSTALLATION,
            env=variables,
        )
    except subprocess.CalledProcessError as error:
        lines = str(error.stdout).strip().splitlines() or ['no output']
        raise UnavailableError(lines[-1]) from error
    except (subprocess.TimeoutExpired, OSError) as error:
        raise UnavailableError(str(error)) from error
    return done.stdout


def base_python() -> str:
    """Return the interpreter that the environments are made from: it runs the programs that are measured."""
    return os.path.realpath(sys.executable)
