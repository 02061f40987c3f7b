"""The changes that a grant needs, as plain data; how they are made, and the text that reports them."""

from __future__ import annotations

import os
import shlex
import subprocess
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from gpu_tracker.errors import GrantError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gpu_tracker.cuda_probe.devices.control_groups import DeviceNumbers

_TIMEOUT = 30.0
"""Seconds that a program may take: systemctl gives up itself after 25."""


class Write(NamedTuple):
    """A line that is to be written to a file of the kernel's."""

    path: str
    line: str

    def in_shell(self) -> str:
        """Return the shell command that does the same."""
        return f'echo {shlex.quote(self.line)} > {shlex.quote(self.path)}'

    def do(self) -> None:
        """Do it.

        :raises GrantError: The kernel refuses.
        """
        try:
            descriptor = os.open(self.path, os.O_WRONLY)
            try:
                os.write(descriptor, self.line.encode())
            finally:
                os.close(descriptor)
        except PermissionError:
            raise GrantError(
                f'the kernel refuses {self.line!r} in {self.path}: this process lacks CAP_SYS_ADMIN, or a parent '
                'control group denies these devices and must allow them first'
            ) from None
        except OSError as error:
            raise GrantError(f'cannot write {self.line!r} to {self.path}: {error.strerror}') from error


class Command(NamedTuple):
    """A program that is to be run."""

    words: tuple[str, ...]

    def in_shell(self) -> str:
        """Return it as a shell command."""
        return shlex.join(self.words)

    def do(self) -> None:
        """Do it.

        :raises GrantError: It fails.
        """
        run(self.words)


@dataclass(frozen=True, slots=True)
class GrantPlan:
    """What is to be changed so that a process can open the GPUs, and how to undo it.

    :ivar pid: The process.
    :ivar name: What it is called.
    :ivar group: Its control group, in words.
    :ivar devices: What it is to be allowed.
    :ivar steps: What is to be done, in order; none: it is allowed already, as far as can be seen.
    :ivar undo: Shell commands that undo the steps, in order.
    :ivar notes: What else there is to know, a sentence each.
    """

    pid: int
    name: str
    group: str
    devices: tuple[DeviceNumbers, ...]
    steps: tuple[Write | Command, ...]
    undo: tuple[str, ...]
    notes: tuple[str, ...] = ()


def apply(plan: GrantPlan) -> None:
    """Do what the plan says.

    :raises GrantError: That needs root, or fails; then the text says what has been done until then.
    """
    if plan.steps and os.geteuid() != 0:
        raise GrantError('only root can change the control group of a process; --dry-run shows what would be done')
    for number, step in enumerate(plan.steps):
        try:
            step.do()
        except GrantError as error:
            done = ''.join(f'\n  {earlier.in_shell()}' for earlier in plan.steps[:number])
            raise GrantError(f'{error}' + (f'\nDone before:{done}' if done else '')) from error


def report(plan: GrantPlan, *, is_done: bool) -> str:
    """Return the lines that describe a plan.

    :param is_done: Whether it has been done.
    """
    lines = [f'Process {plan.pid} ({plan.name}) is in {plan.group}.']
    lines += ['Devices:', *(f'  {numbers.label}' for numbers in plan.devices)]
    if not plan.steps:
        lines.append('Nothing to do: it may open them already.')
    else:
        lines += ['Done:' if is_done else 'To be done:', *(f'  {step.in_shell()}' for step in plan.steps)]
        lines += ['To undo it:', *(f'  {command}' for command in plan.undo)]
    lines += [f'Note: {note}' for note in plan.notes]
    return '\n'.join(lines) + '\n'


def run(words: Sequence[str]) -> str:
    """Run a program to its end, and return what it prints.

    :raises GrantError: It is not there, fails, or takes too long.
    """
    command = shlex.join(words)
    try:
        finished = subprocess.run(
            words, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=_TIMEOUT, check=False
        )
    except FileNotFoundError:
        raise GrantError(f'{words[0]!r} is not on PATH') from None
    except subprocess.TimeoutExpired:
        raise GrantError(f'"{command}" did not end within {_TIMEOUT:g} seconds') from None
    if finished.returncode:
        output = finished.stderr.strip() or f'exit code {finished.returncode}'
        raise GrantError(f'"{command}" has failed: {output}')
    return finished.stdout
