"""The files that hold probed functions: those that a process has mapped, and those that a command may load later.

What the kernel attaches to is an offset in a file, whatever the versions of its symbols.
"""

from __future__ import annotations

import errno
import glob
import itertools
import os
import re
import shlex
import shutil
import stat
from typing import TYPE_CHECKING, NamedTuple

from gpu_tracker.cuda_probe.binaries.elf64 import EM_X86_64, SHT_DYNSYM, SHT_SYMTAB, STT_FUNC, Elf
from gpu_tracker.cuda_probe.binaries.file_systems import FileSystems
from gpu_tracker.cuda_probe.binaries.region import NotReadableError, OpenFile, code_of
from gpu_tracker.cuda_probe.cuda_api import Library

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

    from gpu_tracker.cuda_probe.binaries.region import MappedPart

_PATTERNS = ('libcudart*.so*', 'libcuda.so*')
_SYSTEM_FOLDERS = (
    '/usr/lib/*-linux-gnu',
    '/usr/lib64',
    '/usr/lib',
    '/usr/local/lib',
    '/usr/local/cuda*/lib64',
    '/usr/local/cuda*/targets/*/lib',
    '/opt/cuda/lib64',
)
_FOLDERS_OF_A_PREFIX = (
    'lib',
    'lib64',
    'targets/*/lib',
    'lib*/python3*/*-packages/nvidia/*/lib',
    'lib*/python3*/*-packages/torch/lib',
    'local/lib/python3*/dist-packages/nvidia/*/lib',
    'local/lib/python3*/dist-packages/torch/lib',
)
"""Where Python, conda, Debian's Python and toolkits keep them, from the folder that has ``bin``."""
_MOST_FILES = 64
_MOST_WORDS = 256
"""Of a command: its programs stand before its thousands of files."""
_MOST_FOLDERS = 8
_LONGEST_INTERPRETER = 256  # as the kernel reads it, see execve(2)


def candidates(
    environment: Mapping[str, str],
    command: Sequence[str] = (),
    folders: Iterable[str] = _SYSTEM_FOLDERS,
    *,
    begin: str = '',
) -> list[CodeFile]:
    """Return the libraries that a program started here may load, and the executables, which may have one linked in.

    They are searched for in the system's folders, in those of the environment, and beside the programs of the command.

    :param command: The program and its arguments; a shell's command line is read word by word.
    :param folders: The system's.
    :param begin: The folder in which the command is started; empty: this one.
    """
    programs = list(dict.fromkeys(executables(command, environment.get('PATH'), begin)))
    found: dict[tuple[int, int], CodeFile] = {}
    for path in (*_libraries(environment, programs, folders), *programs):
        libraries = libraries_of(os.path.basename(path)) or (Library.RUNTIME,)
        file = code_file(path, path, libraries)
        if file is not None and len(found) < _MOST_FILES:
            found.setdefault(file.identity, file)
    for file in mapped_files(os.getpid()).files:  # this process' own C library and loader are most likely theirs
        if Library.LIBC in file.libraries or Library.LOADER in file.libraries:
            found.setdefault(file.identity, file)
    return list(found.values())


def _libraries(environment: Mapping[str, str], programs: Iterable[str], folders: Iterable[str]) -> Iterator[str]:
    named = re.split('[:;]', environment.get('LD_LIBRARY_PATH', ''))  # ld.so(8)
    searched = [glob.escape(folder) for folder in named if folder]
    for name in ('VIRTUAL_ENV', 'CONDA_PREFIX', 'CUDA_HOME', 'CUDA_PATH'):
        if environment.get(name):
            searched += _within(environment[name])
    for program in programs:
        beside = os.path.dirname(program)
        searched += [glob.escape(beside), *_within(os.path.dirname(beside))]
    for folder in (*searched, *folders):
        for pattern in _PATTERNS:
            yield from sorted(glob.glob(os.path.join(folder, pattern)))
    yield from (path for path in re.split('[: ]', environment.get('LD_PRELOAD', '')) if '/' in path)


def _within(prefix: str) -> list[str]:
    return [os.path.join(glob.escape(prefix), folder) for folder in _FOLDERS_OF_A_PREFIX]


def executables(command: Sequence[str], path: str | None, folder: str = '') -> Iterator[str]:
    """Yield the absolute paths of executables, the interpreters of scripts too, and where links lead.

    :param command: The words of a command; a shell's command line is read word by word.
    :param path: The variable PATH.
    :param folder: Where the command is started; empty: here.
    """
    for program in _named(command, path, folder):
        for each in (program, *_interpreter(program, path)):
            yield os.path.abspath(each)
            yield os.path.realpath(each)  # the python of a virtual environment is a link


def _named(command: Sequence[str], path: str | None, folder: str) -> Iterator[str]:
    folders = [folder]  # where relative paths may begin: a shell may go into folders first
    words = (word for argument in command for word in _words(argument))
    for word in dict.fromkeys(itertools.islice(words, _MOST_WORDS)):
        named = [os.path.join(each, os.path.expanduser(word)) for each in folders]
        folders += [each for each in named if os.path.isdir(each)][: _MOST_FOLDERS - len(folders)]
        for name in named if '/' in word else (word,):
            program = shutil.which(name, path=path)
            if program is not None:
                yield program


def _words(argument: str) -> Iterator[str]:
    """Yield an argument, and the words that a shell would find in it."""
    yield argument
    pieces = shlex.shlex(argument, posix=True, punctuation_chars=True)
    pieces.whitespace_split = True
    pieces.commenters = ''
    try:
        yield from pieces
    except ValueError:
        return  # quotes that do not close: a shell will say so


def _interpreter(program: str, path: str | None) -> list[str]:
    """Return the executables in the first line of a script, ``env`` and what that starts; none for other programs."""
    try:
        with open(program, 'rb') as file:
            begin = file.read(_LONGEST_INTERPRETER)
    except OSError:
        return []  # it may be executed, but not read
    if not begin.startswith(b'#!'):
        return []
    words = os.fsdecode(begin[2:].partition(b'\n')[0]).split()
    return [found for word in words if (found := shutil.which(word, path=path)) is not None]


_NAMES = (
    (re.compile(r'libcudart[-.\d_a-zA-Z]*\.so'), Library.RUNTIME),
    (re.compile(r'libcuda\.so'), Library.DRIVER),
    (re.compile(r'libc\.so|libc-\d|libc\.musl|ld-musl'), Library.LIBC),
    (re.compile(r'ld-linux|ld-musl|ld-\d|ld64\.so'), Library.LOADER),
)
_BEGINNINGS = ('libc', 'ld')
"""Of all these names: a process has mapped hundreds of files, and they are compared each time that it loads one."""
_DELETED = ' (deleted)'
_MOST_OFFSETS = 64
"""A function has one for each of its versions; static ones of the same name stand beside."""
_MOST_CODE = 16
"""Segments of a file; it has one or two."""
_ANY_CUDA = (Library.RUNTIME, Library.DRIVER)
_CUDA = frozenset(_ANY_CUDA)
_NO_ANSWER = 'its file system does not answer'
_NO_WAY = (
    'it is not to be found where the process sees it, and to reach what a process has mapped takes CAP_SYS_ADMIN or '
    'CAP_CHECKPOINT_RESTORE'
)
_ENDBR64 = b'\xf3\x0f\x1e\xfa'
"""Where indirect calls may arrive, in libraries compiled with ``-fcf-protection=branch``."""


class FileOnDisk(NamedTuple):
    """A file, whatever it is called and whatever is written to it: what is attached to it stays."""

    device: int
    inode: int


class CodeFile(NamedTuple):
    """A file that may hold functions that are probed."""

    path: str
    """Where this process reaches it."""
    shown: str
    """Where the process that has mapped it sees it."""
    identity: FileOnDisk
    modified: int
    """When its contents were changed last, in nanoseconds."""
    libraries: tuple[Library, ...]
    mapped: FileOnDisk | None = None
    """The same file as ``/proc/PID/maps`` has it, if its name says nothing of what it exports."""


def libraries_of(name: str) -> tuple[Library, ...]:
    """Return what a file of that name holds; none where the name matches nothing."""
    if not name.startswith(_BEGINNINGS):
        return ()
    return tuple(library for pattern, library in _NAMES if pattern.match(name))


def code_file(
    path: str, shown: str, libraries: tuple[Library, ...], mapped: FileOnDisk | None = None
) -> CodeFile | None:
    """Return the file at ``path``, None where it is gone, cannot be reached or is no regular file."""
    try:
        status = os.stat(path)
    except OSError:
        return None  # the process has ended, or the file was removed while it is in use
    if not stat.S_ISREG(status.st_mode):
        return None
    return CodeFile(path, shown, FileOnDisk(status.st_dev, status.st_ino), status.st_mtime_ns, libraries, mapped)


class MappedFiles(NamedTuple):
    """The files that a process has mapped, and that may hold probed functions."""

    files: tuple[CodeFile, ...]
    out_of_reach: tuple[tuple[str, str], ...] = ()
    """CUDA's libraries that cannot be read: where the process sees them, and why not."""


def mapped_files(
    pid: int,
    proc: str = '/proc',
    file_systems: FileSystems | None = None,
    without_functions: Collection[FileOnDisk] = (),
) -> MappedFiles:
    """Return all libraries that a process has mapped, and first its executable.

    Any of them may export CUDA's functions, whatever its name. A process that is gone has none.

    :param file_systems: Those that do not answer are left alone.
    :param without_functions: Files to leave out, as :attr:`CodeFile.mapped`: a program loads hundreds, one by one.
    :raises PermissionError: The process is somebody else's.
    """
    folder = f'{proc}/{pid}'
    try:
        code = code_of(proc, pid)
        executable = os.readlink(f'{folder}/exe').removesuffix(_DELETED)
    except PermissionError:
        raise
    except OSError:
        return MappedFiles(())
    file_systems = file_systems or FileSystems()
    dead = {
        mapping.device
        for mapping in {mapping.device: mapping for mapping in code}.values()
        if not file_systems.answers(mapping, folder)
    }
    code_that_answers = [mapping for mapping in code if mapping.device not in dead]
    name = os.path.basename(executable)
    files: list[CodeFile | None] = []
    out_of_reach = {mapping.path or '': _NO_ANSWER for mapping in code if mapping.device in dead and _is_cuda(mapping)}
    if all(mapping.path != executable for mapping in code if mapping.device in dead):
        files.append(code_file(f'{folder}/exe', executable, (Library.RUNTIME, *libraries_of(name))))
    for mapping in code_that_answers:
        mapped = FileOnDisk(mapping.device, mapping.inode)
        if mapped in without_functions:
            continue
        shown = mapping.path or ''
        libraries = libraries_of(os.path.basename(shown))
        reached = mapping.reached_through(folder)
        files.append(
            code_file(reached, shown, libraries) if libraries else code_file(reached, shown, _ANY_CUDA, mapped)
        )
        if files[-1] is None and _is_cuda(mapping) and os.path.lexists(f'{folder}/exe'):
            out_of_reach[mapping.path or ''] = _NO_WAY
    found: dict[FileOnDisk, CodeFile] = {}
    for file in files:
        if file is not None:
            found.setdefault(file.identity, file)
    return MappedFiles(tuple(found.values()), tuple(out_of_reach.items()))


def _is_cuda(mapping: MappedPart) -> bool:
    return not _CUDA.isdisjoint(libraries_of(os.path.basename(mapping.path or '')))


def find_functions(path: str, names: Collection[str]) -> Mapping[str, frozenset[int]]:
    """Return the offsets in the file at which functions of these names begin; names without one are left out.

    An ``endbr64`` at the begin is passed over: the kernel would step through it, at 16 microseconds a call, and
    it changes no register. Anything but a whole 64-bit ELF file has none.

    :raises OSError: The file cannot be opened.
    """
    found: dict[str, set[int]] = {}
    try:
        elf = Elf(OpenFile(path))
        code = [segment for segment in elf.segments() if segment.is_code][:_MOST_CODE]
        for table in (*elf.of_kind(SHT_SYMTAB)[:1], *elf.of_kind(SHT_DYNSYM)[:1]):
            for name, symbol in elf.symbols_named(table, names):
                # Others of code are resolvers, which are called once, when a library is loaded.
                offsets = found.setdefault(name, set())
                if symbol.kind == STT_FUNC and symbol.section and len(offsets) < _MOST_OFFSETS:
                    in_file = (segment.offset_of(symbol.value) for segment in code)
                    offsets.update(_behind_endbr64(elf, offset) for offset in in_file if offset is not None)
    except NotReadableError:
        return {}  # another kind of file, or a damaged one
    except OSError as error:
        if error.errno == errno.EINVAL:
            return {}  # no regular file
        raise
    return {name: frozenset(offsets) for name, offsets in found.items() if offsets}


def _behind_endbr64(elf: Elf, offset: int) -> int:
    is_there = elf.machine == EM_X86_64 and elf.region.read(offset, len(_ENDBR64)) == _ENDBR64
    return offset + len(_ENDBR64) if is_there else offset
