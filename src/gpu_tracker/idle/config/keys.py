"""Every section and key of a configuration file, as data: what is read, told of as unknown, and documented."""

from __future__ import annotations

import difflib
from typing import NamedTuple

FOR_ALL = 'DEFAULT'
"""The section whose keys configparser gives to all others."""
_NEAR = 0.6


class Key(NamedTuple):
    """A key of a section."""

    name: str
    accepts: str
    """What it may be, in words."""
    default: str | None
    """What holds where it is absent, as it would be written; None: it is required."""
    meaning: str
    """A sentence without its full stop."""


_OF_PROGRAMS = (
    Key(
        'idle_before_start_seconds',
        'a number of seconds, at least 0',
        '0',
        'How long the GPUs have to be idle before the program is started',
    ),
    Key(
        'stop_grace_seconds',
        'a number of seconds, at least 0',
        '5',
        'How long the program may take to end once it was told to (SIGTERM), before it is killed (SIGKILL)',
    ),
    Key(
        'restart_backoff_seconds',
        'a number of seconds above 0, at most 300',
        '1',
        'How long to wait before a program that ended is started again; doubled each time, up to 300',
    ),
    Key(
        'use_uuids',
        'True or False',
        'False',
        'Whether CUDA_VISIBLE_DEVICES gets UUIDs instead of numbers; for MIG devices it always does',
    ),
)
_OF_GPUS = (
    Key(
        'busy_memory_mb',
        'a number of megabytes (1,000,000 bytes) above 0, or off',
        'off',
        'From how much memory in use by others a GPU counts as busy, whoever holds it open',
    ),
    Key(
        'busy_utilization_percent',
        'a percentage above 0, at most 100, or off',
        'off',
        'From which utilization a GPU on which no program of yours runs counts as busy',
    ),
)

DEFAULTS, GPU, PROCESS, TTY = 'defaults', 'gpu-NAME', 'process-NAME', 'tty'

KEYS: dict[str, tuple[Key, ...]] = {
    DEFAULTS: (
        Key('interval_seconds', 'a number of seconds, at least 0.1', '10', 'How often GPUs and terminals are checked'),
        *_OF_PROGRAMS,
        *_OF_GPUS,
    ),
    GPU: (
        Key('gpus', 'ALL or GPU numbers such as 0,1', None, 'The GPUs that are watched; 5:1 is a MIG device of GPU 5'),
        Key('ignore_programs', 'names with commas between them', '', 'Programs that do not make these GPUs busy'),
        *_OF_GPUS,
    ),
    PROCESS: (
        Key('dir', 'a folder', None, 'The working folder'),
        Key('cmd', 'a program and its arguments', None, 'What is started; {gpu} is replaced by the GPUs it runs on'),
        Key('gpus', 'ALL or GPU numbers such as 0,1', None, 'The GPUs that it runs on, all together'),
        Key('log', 'a file', '', 'Where its output is appended; without it, it writes where the monitor does'),
        Key('env', 'NAME=value, several with blanks or new lines between them', '', 'Variables to set for it'),
        Key('user', "a user's name", '', 'Whose program it is; root alone may choose, others are themselves'),
        *_OF_PROGRAMS,
    ),
    TTY: (
        Key('enabled', 'True or False', 'False', 'Whether all programs stop while somebody works at a terminal'),
        Key('whitelist', 'users with commas between them', '', 'Users who do not count'),
        Key(
            'idle_seconds',
            'a number of seconds above 0',
            '300',
            'A user counts whose terminal was used less long ago; below 10 it cannot work well',
        ),
    ),
}
"""The kind of a section, with NAME for what one may choose -> its keys."""


def kind_of(section: str) -> str | None:
    """Return which kind a section is, a key of KEYS; None where it is unknown."""
    if section in {DEFAULTS, TTY}:
        return section
    return next((kind for kind in (GPU, PROCESS) if section.startswith(prefix_of(kind))), None)


def prefix_of(kind: str) -> str:
    """Return what stands before the name that one may choose, such as ``gpu-``."""
    return kind.removesuffix('NAME')


def names_of(kind: str) -> tuple[str, ...]:
    """Return the names of the keys of a kind of section; ``[DEFAULT]`` may have them all."""
    if kind == FOR_ALL:
        return tuple(key.name for keys in KEYS.values() for key in keys)
    return tuple(key.name for key in KEYS[kind])


def nearest_key(kind: str, name: str) -> str | None:
    """Return the key of a section for which an unknown one may have been meant."""
    return next(iter(difflib.get_close_matches(name, names_of(kind), 1, _NEAR)), None)


def nearest_section(name: str) -> str | None:
    """Return the section for which an unknown one may have been meant, such as ``process-0`` for ``proces-0``."""
    head, _, rest = name.strip().partition('-')
    by_head = {kind.partition('-')[0]: kind for kind in KEYS}
    near = difflib.get_close_matches(head.strip().lower(), by_head, 1, _NEAR)
    if not near:
        return None
    kind = by_head[near[0]]
    return f'{prefix_of(kind)}{rest.strip() or "NAME"}' if kind.endswith('NAME') else kind
