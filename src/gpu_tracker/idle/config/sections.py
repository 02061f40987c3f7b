"""Each kind of section: its keys in, its settings out, and every key that cannot be used as a problem.

A required key that cannot be used becomes something empty, so that the other keys can be checked as well.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, NamedTuple

from gpu_tracker.idle.config import keys, values
from gpu_tracker.idle.config.problem import quoted
from gpu_tracker.idle.config.settings import GpuSection, Program, Settings, Terminals

if TYPE_CHECKING:
    from gpu_tracker.idle.config.caller import Caller
    from gpu_tracker.idle.config.reader import SectionReader
    from gpu_tracker.idle.gpu_id import GpuId

_NO_GPUS: tuple[GpuId, ...] | None = ()
_NO_NAMES: tuple[str, ...] = ()
_IDLE_SECONDS = 300.0
_COARSE = 10.0
"""Seconds. The kernel notes the use of a terminal only every 8 s: tty_update_time in its drivers/tty/tty_io.c."""


class Defaults(NamedTuple):
    """What ``[defaults]`` says."""

    interval: float = Settings().interval
    program: Program = Program('', (), (), '')
    gpu: GpuSection = GpuSection('', None)


def defaults(reader: SectionReader) -> Defaults:
    """Return what a ``[defaults]`` section says."""
    built_in = Defaults()
    return Defaults(
        reader.optional('interval_seconds', values.interval, built_in.interval),
        Program('', (), (), '', None, (), None, *_manner(reader, built_in.program)),
        GpuSection('', None, (), *_busy(reader, built_in.gpu)),
    )


def gpu_section(reader: SectionReader, inherited: GpuSection) -> GpuSection:
    """Return a ``[gpu-NAME]`` section, with no GPUs where they cannot be used."""
    reader.warn_of_comments('ignore_programs')
    return GpuSection(
        reader.name(keys.GPU),
        reader.required('gpus', values.gpus, _NO_GPUS),
        reader.optional('ignore_programs', values.names, _NO_NAMES),
        *_busy(reader, inherited),
    )


def program(reader: SectionReader, inherited: Program, caller: Caller) -> Program:
    """Return a ``[process-NAME]`` section, with something empty for each key that cannot be used."""
    user = reader.optional('user', lambda text: _user(text, caller), None)
    owner = user or caller.user
    gpus = reader.required('gpus', values.gpus, _NO_GPUS)
    if gpus and len(gpus) > 1 and any(gpu.mig is not None for gpu in gpus):
        reader.warn('gpus', 'a CUDA program uses one MIG device at most, and no other GPU beside it')
    command = reader.required('cmd', values.words, _NO_NAMES)
    if values.comment_among(command, reader.section.values.get('cmd', '')):
        reader.warn_of_comment('cmd')
    reader.warn_of_comments('log')
    return Program(
        reader.name(keys.PROCESS),
        gpus,
        command,
        reader.required('dir', lambda text: _path(text, owner, caller), ''),
        reader.optional('log', lambda text: _path(text, owner, caller) if text else None, None),
        reader.optional('env', values.variables, ()),
        user,
        *_manner(reader, inherited),
    )


def terminals(reader: SectionReader) -> Terminals | None:
    """Return the ``[tty]`` section, None where it is not enabled."""
    enabled = reader.optional('enabled', values.switch, default=False)
    found = Terminals(
        reader.optional('idle_seconds', values.above_zero, _IDLE_SECONDS),
        frozenset(reader.optional('whitelist', values.names, _NO_NAMES)),
    )
    if not enabled:
        return None
    reader.warn_of_comments('whitelist')
    if found.idle_seconds < _COARSE:
        reader.warn('idle_seconds', 'below 10 users at work may seem idle: the kernel notes their work every 8 s')
    return found


def _manner(reader: SectionReader, inherited: Program) -> tuple[bool, float, float, float]:
    """Return how a program is started and stopped: the last fields of its settings."""
    return (
        reader.optional('use_uuids', values.switch, inherited.use_uuids),
        reader.optional('idle_before_start_seconds', values.at_least_zero, inherited.idle_before_start),
        reader.optional('stop_grace_seconds', values.at_least_zero, inherited.stop_grace),
        reader.optional('restart_backoff_seconds', values.back_off, inherited.restart_backoff),
    )


def _busy(reader: SectionReader, inherited: GpuSection) -> tuple[int | None, float | None]:
    """Return the thresholds of a GPU: the last fields of its settings."""
    return (
        reader.optional('busy_memory_mb', values.bytes_or_off, inherited.busy_memory),
        reader.optional('busy_utilization_percent', values.percentage_or_off, inherited.busy_utilization),
    )


def _user(text: str, caller: Caller) -> str | None:
    """Return the name of a user whose the program is to be; None for whoever runs the monitor."""
    if not text or text == caller.user:
        return None
    values.one_line(text)
    if caller.home_of(text) is None:
        raise values.ValueUnusableError(f'there is no user {quoted(text)}{values.hint(text)}')
    if not caller.is_root:
        raise values.ValueUnusableError(f'only root runs programs as other users, and this is {caller.user}')
    return text


def _path(text: str, owner: str, caller: Caller) -> str:
    """Return a path made absolute, where ``~`` is the home of ``owner``."""
    path = values.one_line(text)
    if path.startswith('~'):
        name, slash, rest = path[1:].partition('/')
        home = caller.home_of(name or owner)
        if home is None:
            raise values.ValueUnusableError(f'there is no user {quoted(name)}, so ~{name} is no folder')
        path = f'{home}{slash}{rest}'
    if not os.path.isabs(path):
        if caller.folder is None:
            raise values.ValueUnusableError('must begin with a /: the folder that this was started in is gone')
        path = os.path.join(caller.folder, path)
    # A .. after a symbolic link leads elsewhere than its text says.
    return path if '..' in path.split('/') else os.path.normpath(path)
