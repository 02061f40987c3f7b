"""Processes that use a GPU: their names, owners and ancestors, and which of them never make a GPU busy."""

from __future__ import annotations

import os
import os.path
import re
import time
from typing import TYPE_CHECKING, NamedTuple

from gpu_tracker.idle.running import GUARDIAN_MARK
from gpu_tracker.idle.state import GpuUser
from gpu_tracker.processes import SAMPLER_MARK
from gpu_tracker.system.users import UserNames

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Sequence

_PYTHON = re.compile(r'(python|pypy)[0-9.]*t?')
_SHELL = re.compile(r'(ba|da|z|k|mk|a)?sh')
_OTHERS = re.compile(r'(perl|ruby|Rscript|node)[0-9.]*')


class _Options(NamedTuple):
    """How an interpreter's options are distinguished from the script that follows them."""

    with_value: frozenset[str]
    """Options after which a word stands that belongs to them."""
    code: frozenset[str]
    """Letters of options after which the program itself stands."""
    module: frozenset[str]
    """Letters of options after which the name of a module stands."""


_OF_PYTHON = _Options(frozenset({'-W', '-X', '--check-hash-based-pycs'}), frozenset('c'), frozenset('m'))
_OF_SHELLS = _Options(frozenset({'-o', '+o', '-O', '+O', '--rcfile', '--init-file'}), frozenset('c'), frozenset())
_OF_OTHERS = _Options(frozenset({'-I', '-r', '--require'}), frozenset('eE'), frozenset())


class NamedProgram(NamedTuple):
    """What a process runs."""

    names: tuple[str, ...] = ()
    """What it may be called: its own name, that of its program, and that of the script or module, none twice."""
    arguments: tuple[str, ...] = ()
    """The words behind the program or the script."""
    words: tuple[str, ...] = ()
    """The whole command line."""

    @property
    def name(self) -> str:
        """The name that is clearest to a person: ``?`` where there is none."""
        return self.names[-1] if self.names else '?'


def program_of(comm: str, words: Sequence[str]) -> NamedProgram:
    """Return what a process runs.

    :param comm: Its name as the kernel has it, cut to 15 characters.
    :param words: Its command line.
    """
    names = [comm]
    arguments = tuple(words[1:])
    if words:
        # Some services write there what they do: "sshd: alice@pts/0", "postgres: writer"; a login shell is "-bash".
        called = os.path.basename(words[0].partition(': ')[0]).removeprefix('-')
        names.append(called)
        options = _options_of(called)
        if options is not None:
            script, arguments = _script(options, arguments)
            names.append(script)
    return NamedProgram(tuple(dict.fromkeys(filter(None, names))), arguments, tuple(words))


def _options_of(program: str) -> _Options | None:
    for pattern, options in ((_PYTHON, _OF_PYTHON), (_SHELL, _OF_SHELLS), (_OTHERS, _OF_OTHERS)):
        if pattern.fullmatch(program):
            return options
    return None


def _script(options: _Options, words: tuple[str, ...]) -> tuple[str, tuple[str, ...]]:
    """Return the name of an interpreter's script or module, nothing where there is none, and the script's arguments."""
    position = 0
    while position < len(words):
        word, rest = words[position], words[position + 1 :]
        position += 1
        if word in options.with_value:
            position += 1
        elif word == '--':
            return _file(rest)
        elif word.startswith('-') and not word.startswith('--'):
            letter, attached = _last_letter(options, word)
            if letter in options.module:
                name, *arguments = (attached, *rest) if attached else rest or ('',)
                return name, tuple(arguments)
            if word == '-' or letter in options.code:  # the program itself, or that it comes from standard input
                return '', ()
            if letter is not None and not attached:
                position += 1
        elif not word.startswith(('-', '+')):
            return _file((word, *rest))
    return '', ()


def _file(words: tuple[str, ...]) -> tuple[str, tuple[str, ...]]:
    return (os.path.basename(words[0]), words[1:]) if words else ('', ())


def _last_letter(options: _Options, word: str) -> tuple[str | None, str]:
    """Return the letter in a word of one-letter options that takes all that follows, and what follows in the word."""
    for place, letter in enumerate(word[1:], 2):
        if letter in options.code or letter in options.module or f'-{letter}' in options.with_value:
            return letter, word[place:]
    return None, ''


_COMM = 15
"""Characters of its name that the kernel keeps, see TASK_COMM_LEN in proc_pid_comm(5)."""
_GPU_TRACKER = frozenset({'gpu-tracker', 'gpu_tracker'})
"""The program, and the module that is the same."""


class Exempt(NamedTuple):
    """A kind of process that never counts."""

    who: str
    """Which processes these are, and why they do not count."""
    programs: frozenset[str] = frozenset()
    """Names of programs."""
    commands: frozenset[str] = frozenset()
    """Where there are any, one of them has to be the first argument."""
    mark: str | None = None
    """A word that stands in the command line; None: the program's name decides."""

    def applies(self, program: NamedProgram) -> bool:
        """Return whether a process that runs ``program`` is one of these."""
        if self.mark is not None:
            return self.mark in program.words
        if not has_name(program.names, self.programs):
            return False
        return not self.commands or (bool(program.arguments) and program.arguments[0] in self.commands)


EXEMPT = (
    Exempt('nvidia-persistenced keeps the driver loaded', frozenset({'nvidia-persistenced'})),
    Exempt("atopgpud, the original or gpu-tracker's, reads statistics", frozenset({'atopgpud'})),
    Exempt("gpu-tracker atopgpud is gpu-tracker's atopgpud", _GPU_TRACKER, frozenset({'atopgpud'})),
    Exempt('gpu-tracker agent reads statistics', _GPU_TRACKER, frozenset({'agent'})),
    Exempt('gpu-tracker gpus, ls and available read statistics', _GPU_TRACKER, frozenset({'gpus', 'ls', 'available'})),
    Exempt('gpu-tracker idle is a monitor, this one or another', _GPU_TRACKER, frozenset({'idle'})),
    Exempt('a guardian keeps a program of a monitor, and runs nothing itself', mark=GUARDIAN_MARK),
    Exempt('a sampler measures what a tracked program uses', mark=SAMPLER_MARK),
)
"""Those that never count. A program that ``gpu-tracker`` tracks is a process of its own, and does."""


def is_exempt(program: NamedProgram) -> bool:
    """Return whether a process that runs ``program`` never counts."""
    return any(kind.applies(program) for kind in EXEMPT)


def has_name(names: tuple[str, ...], wanted: Iterable[str]) -> bool:
    """Return whether one of a process' names is among those wanted; of a long one the first 15 characters suffice.

    :param names: As :class:`NamedProgram` has them, the one that the kernel keeps, cut, first.
    """
    return any(name in names or (len(name) > _COMM and names[:1] == (name[:_COMM],)) for name in wanted)


_ATTEMPTS = 3
"""How often a process' parents are followed: one that ends meanwhile breaks the chain, and hands its children on."""
_KEPT = 0.05
"""Seconds for which is kept what was read: one poll asks several times for the same process."""


class _Stat(NamedTuple):
    """The fields used of a process' stat file."""

    name: str
    parent: int


class Programs:
    """Lookup of what processes are.

    What was read is kept for one poll and not longer: a process may become another program at any time, and its pid
    another process. To read costs 30 µs a process, and few use GPUs.

    :param proc: The folder of proc(5).
    :param name_of: Returns at once the name of the user with an ID, or the ID as text; None: :class:`UserNames`.
    :param own_pid: The monitor, which never counts.
    :param monotonic: Returns the time.
    """

    def __init__(
        self,
        proc: str = '/proc',
        *,
        name_of: Callable[[int], str] | None = None,
        own_pid: int | None = None,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._proc = proc
        self._name_of = UserNames().name if name_of is None else name_of
        self._own_pid = os.getpid() if own_pid is None else own_pid
        self._monotonic = monotonic
        self._read_at = monotonic()
        self._programs: dict[int, NamedProgram] = {}
        self._parents: dict[int, int | None] = {}

    def names(self, pid: int) -> tuple[str, ...]:
        """Return what a process may be called: its own name, its program's, its script's; nothing where it is gone."""
        return self._program(pid).names

    def never_counts(self, pid: int) -> bool:
        """Return whether a process never counts: the monitor itself, and those of :data:`exempt.EXEMPT`."""
        return pid == self._own_pid or is_exempt(self._program(pid))

    def is_ignored(self, pid: int, ignore_programs: Collection[str]) -> bool:
        """Return whether one of a process' names is among those of programs that do not count."""
        return bool(ignore_programs) and has_name(self.names(pid), ignore_programs)

    def describe(self, pid: int) -> GpuUser:
        """Return what a process is and whose, as far as that is to be seen."""
        try:
            # Of the folder, which is the effective user's even where its files are root's.
            user = self._name_of(os.stat(f'{self._proc}/{pid}').st_uid)
        except OSError:
            return GpuUser(pid, '?')  # gone, or hidden (mount option hidepid of proc(5))
        return GpuUser(pid, self._program(pid).name, user)

    def is_ours(self, pid: int, roots: Collection[int]) -> bool:
        """Return whether a process is one of ``roots`` or descends from one."""
        if not roots:
            return False
        self._forget_what_is_old()
        for _ in range(_ATTEMPTS):
            answer = self._descends(pid, roots)
            if answer is not None:
                return answer
            self._parents.clear()
        return False

    def _descends(self, pid: int, roots: Collection[int]) -> bool | None:
        """Follow the parents; None where one of them has ended meanwhile, so that its child has another parent now."""
        first, seen = pid, set()
        while pid not in roots:
            if pid <= 1 or pid in seen:  # 0: of another PID namespace; a reused pid could make a circle
                return False
            seen.add(pid)
            parent = self._parent(pid)
            if parent is None:
                return False if pid == first else None
            pid = parent
        return True

    def _parent(self, pid: int) -> int | None:
        if pid not in self._parents:
            line = self._stat(pid)
            self._parents[pid] = None if line is None else line.parent
        return self._parents[pid]

    def _forget_what_is_old(self) -> None:
        now = self._monotonic()
        if now - self._read_at > _KEPT:
            self._read_at = now
            self._programs.clear()
            self._parents.clear()

    def _program(self, pid: int) -> NamedProgram:
        self._forget_what_is_old()
        if pid not in self._programs:
            self._programs[pid] = self._read(pid)
        return self._programs[pid]

    def _read(self, pid: int) -> NamedProgram:
        line = self._stat(pid)
        if line is None:
            return NamedProgram()
        self._parents.setdefault(pid, line.parent)
        try:
            with open(f'{self._proc}/{pid}/cmdline', 'rb') as file:
                text = os.fsdecode(file.read())
        except OSError:
            text = ''  # it has just ended
        return program_of(line.name, text.rstrip('\0').split('\0') if text else [])

    def _stat(self, pid: int) -> _Stat | None:
        try:
            with open(f'{self._proc}/{pid}/stat', 'rb') as file:
                line = file.read()
        except OSError:
            return None  # gone, or hidden
        name_end = line.rindex(b')')
        return _Stat(os.fsdecode(line[line.index(b'(') + 1 : name_end]), int(line[name_end + 2 :].split(b' ', 2)[1]))
