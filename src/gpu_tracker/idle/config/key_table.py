"""The table of the sections and keys of a configuration file, the template made from it, and the nearest of its names.

The parser reads each key as the table says, and the template shows each with its help.
"""

from __future__ import annotations

import difflib
import re
import textwrap
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from gpu_tracker.idle.config import values
from gpu_tracker.idle.config.document import FOR_ALL

if TYPE_CHECKING:
    from collections.abc import Callable

_NEAR = 0.6
_WIDTH = 83


@dataclass(frozen=True, slots=True)
class Key:
    """A key of a section."""

    name: str
    parse: Callable[[str], Any]
    """Returns the value of a text, or raises ValueUnusableError."""
    default: str | None
    """The text that holds where the key is absent; None: it is required."""
    help: str
    """Sentences for the template."""
    example: str | None = None
    """What the template shows instead of the default."""
    is_commented_out: bool = False
    """Whether the template shows it as a comment."""
    held_in: str | None = None
    """The field of the settings that holds its value; None: the one with the key's name."""

    @property
    def field(self) -> str:
        """The field of the settings that holds its value."""
        return self.name if self.held_in is None else self.held_in

    @property
    def fallback(self) -> Any:  # noqa: ANN401 - of the type that parse returns
        """The value where the key is absent or cannot be used; of a required key something empty."""
        if self.default is not None:
            return self.parse(self.default)
        return '' if self.parse is values.one_line else ()

    @property
    def template(self) -> str:
        """The lines of the template."""
        mark = '#' if self.is_commented_out else ''
        shown = (self.default if self.example is None else self.example) or ''
        first, *others = f'{self.name} = {shown}'.rstrip().split('\n')
        return '\n'.join([_comment(self.help), f'{mark}{first}', *(f'{mark}{" " * 6}{line}' for line in others)])


_OF_PROGRAMS = (
    Key(
        'idle_before_start_seconds',
        values.at_least_zero,
        '0',
        'How long the GPUs have to be idle before a program is started.',
        is_commented_out=True,
        held_in='idle_before_start',
    ),
    Key(
        'stop_grace_seconds',
        values.at_least_zero,
        '5',
        'How long a program may take to end once it was told to (SIGTERM), before it is killed (SIGKILL).',
        is_commented_out=True,
        held_in='stop_grace',
    ),
    Key(
        'restart_backoff_seconds',
        values.back_off,
        '1',
        'How long to wait before a program that ended is started again; after exit code 0, interval_seconds at most. '
        'With each further failure the time is doubled, up to 300 s, beginning at 1 s if it is 0.',
        is_commented_out=True,
        held_in='restart_backoff',
    ),
    Key(
        'use_uuids',
        values.switch,
        'False',
        'Whether CUDA_VISIBLE_DEVICES gets UUIDs instead of numbers. For MIG devices it always does.',
        is_commented_out=True,
    ),
)
_OF_GPUS = (
    Key(
        'busy_memory_mb',
        values.bytes_or_off,
        'off',
        'From how much memory in use by others a GPU counts as busy, whoever holds it open: a number of megabytes '
        '(1,000,000 bytes), or off.',
        is_commented_out=True,
        held_in='busy_memory',
    ),
    Key(
        'busy_utilization_percent',
        values.percentage_or_off,
        'off',
        'From which utilization a GPU counts as busy while no program of yours runs on it: a percentage, or off.',
        is_commented_out=True,
        held_in='busy_utilization',
    ),
)

DEFAULTS, GPU, PROCESS, TTY = 'defaults', 'gpu-NAME', 'process-NAME', 'tty'

KEYS: dict[str, tuple[Key, ...]] = {
    DEFAULTS: (
        Key(
            'interval_seconds',
            values.interval,
            '10',
            'How often GPUs and terminals are checked, in seconds; at least 0.1.',
            held_in='interval',
        ),
        *_OF_PROGRAMS,
        *_OF_GPUS,
    ),
    GPU: (
        Key(
            'gpus',
            values.gpus,
            None,
            'ALL, or numbers such as 0,1 as nvidia-smi gives them. 5:1 is the second MIG device of GPU 5.',
            'ALL',
        ),
        Key(
            'ignore_programs',
            values.names,
            '',
            'Programs that do not make these GPUs busy, with commas between their names.',
            'nvidia-smi',
        ),
        *_OF_GPUS,
    ),
    PROCESS: (
        Key(
            'dir',
            values.one_line,
            None,
            "The folder to work in. ~ is the home folder of the program's user.",
            '/tmp',  # noqa: S108 - an example
            held_in='folder',
        ),
        Key(
            'cmd',
            values.words,
            None,
            'The program and its arguments, quoted as in a shell; no shell is started, though. {gpu} is replaced by '
            'the GPUs that the program runs on.',
            'nice -n 19 sleep infinity',
            held_in='command',
        ),
        Key(
            'gpus',
            values.gpus,
            None,
            'ALL, or numbers such as 0,1: the program gets all of them, once all are idle. For a program of its own on '
            'each GPU write a section for each.',
            'ALL',
        ),
        Key(
            'log',
            values.one_line_or_none,
            '',
            'The file to which the output is appended. Without one the program writes where gpu-tracker does.',
            '/dev/null',
        ),
        Key(
            'env',
            values.variables,
            '',
            'Variables to set besides those that gpu-tracker itself has: NAME=value, quoted where the value has '
            'blanks. More may follow on lines with blanks in front.',
            'OMP_NUM_THREADS=1\n"TITLE=two words"',
            is_commented_out=True,
            held_in='environment',
        ),
        Key(
            'user',
            values.one_line_or_none,
            '',
            'Whose the program is. Only root may choose another user.',
            'nobody',
            is_commented_out=True,
        ),
        *_OF_PROGRAMS,
    ),
    TTY: (
        Key(
            'enabled',
            values.switch,
            'False',
            'True: all programs stop while somebody works at a terminal. False: nobody looks.',
        ),
        Key('whitelist', values.name_set, '', 'Users who do not count, with commas between them.'),
        Key(
            'idle_seconds',
            values.at_least_zero,
            '300',
            'A user counts whose terminal was used less long ago, in seconds. Below 10 this cannot work well, as the '
            'kernel notes the use of a terminal only every 8 s; with 0 nobody counts.',
        ),
    ),
}
"""The kind of a section, with NAME for what one may choose -> its keys."""

_BEGINNING = """\
# What runs on the GPUs of this machine while nobody uses them.
#
# Change cmd, dir and log in [process-all] below, then let the file be checked:
#   gpu-tracker idle --check -c FILE
# Keys that are commented out show their defaults. A comment stands on a line of
# its own. %(dir)s in a value stands for the dir of its section, %% for a percent
# sign.

"""
_SHARED = 'The keys below may stand in [gpu-NAME] and [process-NAME] sections as well; what is said there goes first.'
_INTRODUCTIONS = {
    GPU: 'Which GPUs are watched, and who may use them without making them busy. There may be several such sections; '
    'where there is none, all GPUs are watched.',
    PROCESS: 'A program that runs while its GPUs are idle. There may be several such sections.',
    TTY: 'Users at work.',
}


def template() -> str:
    """Return the configuration file that ``--print-config`` prints: every key, explained."""
    interval, *shared = KEYS[DEFAULTS]
    parts = [
        f'{_BEGINNING}[{DEFAULTS}]\n{interval.template}\n\n{_comment(_SHARED)}\n\n'
        + '\n'.join(key.template for key in shared)
    ]
    for kind, introduction in _INTRODUCTIONS.items():
        keys = '\n'.join(key.template for key in KEYS[kind] if key not in shared)
        parts.append(f'{_comment(introduction)}\n[{kind.replace("NAME", "all")}]\n{keys}')
    return '\n\n\n'.join(parts) + '\n'


def _comment(text: str) -> str:
    return textwrap.fill(text, _WIDTH, initial_indent='# ', subsequent_indent='# ')


def kind_of(section: str) -> str | None:
    """Return which kind a section is, a key of KEYS; None where it is unknown."""
    if section in {DEFAULTS, TTY}:
        return section
    return next((kind for kind in (GPU, PROCESS) if _has_name(section, prefix_of(kind))), None)


def _has_name(section: str, prefix: str) -> bool:
    """Return whether a section is ``gpu-NAME``, or ``gpu0`` as gpu_mon takes it too."""
    return section.startswith(prefix) or re.match(re.escape(prefix.removesuffix('-')) + '[0-9]', section) is not None


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
