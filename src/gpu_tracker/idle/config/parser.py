"""The parser of a configuration file: its text -> settings, with all that is wrong with it at once.

A required key that cannot be used becomes something empty, so that the other keys can be checked as well.
"""

from __future__ import annotations

import os
import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

from gpu_tracker.idle.config import values
from gpu_tracker.idle.config.document import (
    FOR_ALL,
    Document,
    Interpolation,
    Problem,
    ValueUnusableError,
    quoted,
    read_document,
    referred_to,
    sorted_by_line,
)
from gpu_tracker.idle.config.idle_settings import GpuSection, Program, Settings, Terminals
from gpu_tracker.idle.config.key_table import (
    DEFAULTS,
    GPU,
    KEYS,
    PROCESS,
    TTY,
    kind_of,
    names_of,
    nearest_key,
    nearest_section,
    prefix_of,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from gpu_tracker.idle.config.document import Section
    from gpu_tracker.idle.config.file_access import Caller
    from gpu_tracker.idle.config.idle_settings import GpuId

_LIKE_GPU = re.compile(r'\{\s*gpu(?:s|_?ids?|_?index|_?num(?:ber)?s?|_?uuids?)?\s*\}', re.IGNORECASE)
_COARSE = 10.0
"""Seconds. The kernel notes the use of a terminal only every 8 s: tty_update_time in its drivers/tty/tty_io.c."""


class Parsed(NamedTuple):
    """What a text says, before it is checked against this machine."""

    settings: Settings
    """Whole where there are no errors; else with something empty or a default for each value that cannot be used."""
    errors: tuple[Problem, ...]
    warnings: tuple[Problem, ...]
    document: Document
    """Where in the text everything stands."""


def parse(text: str, caller: Caller) -> Parsed:
    """Return what a text says to a user; problems are sorted by line, and nothing is raised."""
    document = read_document(text)
    errors, warnings = list(document.errors), list(document.warnings)
    readers = {
        name: _SectionReader(section, kind, errors, warnings)
        for name, section in document.sections.items()
        if (kind := kind_of(name)) is not None
    }
    of_kind = {kind: [reader for reader in readers.values() if reader.kind == kind] for kind in KEYS}

    inherited = {key.field: key.fallback for key in KEYS[DEFAULTS]}
    for reader in of_kind[DEFAULTS]:
        inherited = reader.values(inherited)
    of_all = GpuSection('', None, (), inherited['busy_memory'], inherited['busy_utilization'])
    terminals = None
    for reader in of_kind[TTY]:
        terminals = _terminals(reader)
    named = Settings(
        inherited['interval'],
        tuple(_gpu_section(reader, inherited) for reader in of_kind[GPU]),
        tuple(_program(reader, inherited, caller) for reader in of_kind[PROCESS]),
        terminals,
    )
    added = []
    for program, gpu in _unnamed(named):
        added.append(replace(of_all, name=program.name, gpus=(gpu,)))
        text = f'no [gpu-NAME] section names GPU {gpu}: it is watched too, because this program runs on it'
        readers[program.name].warn('gpus', text)
    if not named.gpus and of_all != GpuSection('', None):
        added.append(replace(of_all, name=DEFAULTS))
    settings = replace(named, gpus=(*named.gpus, *added))
    warnings.extend(_probable_mistakes(document, settings))
    return Parsed(settings, sorted_by_line(errors), sorted_by_line(warnings), document)


class _SectionReader:
    """Reads the keys of one section; what is wrong goes to ``errors`` and ``warnings``."""

    def __init__(self, section: Section, kind: str, errors: list[Problem], warnings: list[Problem]) -> None:
        self.section = section
        self.kind = kind
        self._interpolation = Interpolation(section.values)
        self._errors = errors
        self._warnings = warnings

    def name(self) -> str:
        """Return what the writer has called the section."""
        prefix = prefix_of(self.kind)
        if not self.section.name.removeprefix(prefix).strip():
            self._errors.append(Problem(self.section.line, self.section.name, f'needs a name after {prefix}'))
        return self.section.name

    def values(self, inherited: Mapping[str, Any]) -> dict[str, Any]:
        """Return the value of each key by its field in the settings.

        :param inherited: The values of ``[defaults]`` by their fields, for keys that are absent or cannot be used.
        """
        found = {}
        for key in KEYS[self.kind]:
            found[key.field] = inherited.get(key.field, key.fallback)
            if key.default is None and key.name not in self.section.values:
                self.error(key.name, 'is missing')
                continue
            try:
                text = self._interpolation.get(key.name)
                if text is not None:
                    found[key.field] = key.parse(text)
            except ValueUnusableError as error:
                self.error(key.name, str(error))
        return found

    def error(self, key: str, text: str) -> None:
        """Note that a key cannot be used."""
        self._errors.append(Problem(self.section.line_of(key), self.section.name, f'{key}: {text}'))

    def warn(self, key: str, text: str) -> None:
        """Note that a key may not mean what was intended."""
        self._warnings.append(Problem(self.section.line_of(key), self.section.name, f'{key}: {text}'))

    def warn_of_comment(self, key: str, *, is_certain: bool = False) -> None:
        """Note that a key's value has something that looks like a comment, and is none."""
        if is_certain or values.comment_within(self.section.values.get(key, '')):
            self.warn(key, f'the text after ; or # is part of the value: {values.COMMENT_HINT}')


def _gpu_section(reader: _SectionReader, inherited: Mapping[str, Any]) -> GpuSection:
    reader.warn_of_comment('ignore_programs')
    return GpuSection(reader.name(), **reader.values(inherited))


def _program(reader: _SectionReader, inherited: Mapping[str, Any], caller: Caller) -> Program:
    found = reader.values(inherited)

    def resolve(key: str, field: str, function: Callable[[str], str | None], unusable: str | None) -> None:
        try:
            found[field] = found[field] and function(found[field])
        except ValueUnusableError as error:
            reader.error(key, str(error))
            found[field] = unusable

    resolve('user', 'user', lambda name: _user(name, caller), None)
    owner = found['user'] or caller.user
    resolve('dir', 'folder', lambda path: _path(path, owner, caller), '')
    resolve('log', 'log', lambda path: _path(path, owner, caller), None)
    gpus = found['gpus']
    if gpus and len(gpus) > 1 and any(gpu.mig is not None for gpu in gpus):
        reader.warn('gpus', 'a CUDA program can use only one MIG device and no other GPU')
    if values.comment_among(found['command'], reader.section.values.get('cmd', '')):
        reader.warn_of_comment('cmd', is_certain=True)
    reader.warn_of_comment('log')
    return Program(reader.name(), **found, interval=inherited['interval'])


def _terminals(reader: _SectionReader) -> Terminals | None:
    """Return the ``[tty]`` section, None where it is not enabled."""
    found = reader.values({})
    if not found.pop('enabled'):
        return None
    reader.warn_of_comment('whitelist')
    terminals = Terminals(**found)
    if terminals.idle_seconds == 0:
        reader.warn('idle_seconds', 'with 0, no user at a terminal counts as active')
    elif terminals.idle_seconds < _COARSE:
        reader.warn(
            'idle_seconds', 'with less than 10 s, active users may seem idle: Linux records use of a terminal every 8 s'
        )
    return terminals


def _user(name: str, caller: Caller) -> str | None:
    """Return the name of a user whose the program is to be; None for whoever runs the monitor."""
    if name == caller.user:
        return None
    if caller.home_of(name) is None:
        raise ValueUnusableError(f'there is no user {quoted(name)}{values.hint(name)}')
    if not caller.is_root:
        raise ValueUnusableError(f'only root can run programs as another user, and the monitor runs as {caller.user}')
    return name


def _path(path: str, owner: str, caller: Caller) -> str:
    """Return a path made absolute, where ``~`` is the home of ``owner``."""
    if path.startswith('~'):
        name, slash, rest = path[1:].partition('/')
        home = caller.home_of(name or owner)
        if home is None:
            raise ValueUnusableError(f'there is no user {quoted(name)}, so ~{name} is not a folder')
        path = f'{home}{slash}{rest}'
    if not os.path.isabs(path):
        if caller.folder is None:
            raise ValueUnusableError('must begin with a /, because the working directory of the monitor was removed')
        path = os.path.join(caller.folder, path)
    # A .. after a symbolic link leads elsewhere than its text says.
    return path if '..' in path.split('/') else os.path.normpath(path)


def _unnamed(settings: Settings) -> Iterator[tuple[Program, GpuId]]:
    """Return the GPUs that programs run on and no ``[gpu-NAME]`` section names, each once."""
    # Where a list of GPUs could not be read, nobody knows which GPUs are named.
    if any(section.gpus == () for section in settings.gpus):
        return
    found: set[GpuId] = set()
    for program in settings.programs:
        for gpu in program.gpus or ():
            if settings.section_of(gpu) is None and gpu not in found:
                found.add(gpu)
                yield program, gpu


def _probable_mistakes(document: Document, settings: Settings) -> Iterator[Problem]:
    """Return what is most likely a mistake: unknown sections and keys, and nothing to run."""
    used = {
        key
        for section in document.sections.values()
        for written in section.values.values()
        for key in referred_to(written)
    }
    for section in document.sections.values():
        kind = FOR_ALL if section.name == FOR_ALL else kind_of(section.name)
        if kind is None:
            near = nearest_section(section.name)
            text = 'is not known, and left out' + (f'; did you mean [{near}]?' if near else '')
            yield Problem(section.line, section.name, text)
            continue
        for key, line in section.lines.items():
            if key not in used and key not in names_of(kind):
                yield Problem(line, section.name, f'{key}: is not known here, and left out{_suggestion(kind, key)}')
            if kind != FOR_ALL:  # what stands there may refer to keys of other sections
                yield from (Problem(line, section.name, f'{key}: {text}') for text in _unreplaced(section, key))
    if not settings.programs:
        yield Problem(None, None, 'has no [process-NAME] section: GPUs are watched, and nothing is started')


def _unreplaced(section: Section, key: str) -> Iterator[str]:
    """Return what is said of words in a value that look as if something else were put in their place."""
    written = section.values[key]
    for name in referred_to(written):
        if name not in section.values:
            yield f'%({name})s stays as it is: the section has no key {name}'
    if key == 'cmd':
        for word in dict.fromkeys(_LIKE_GPU.findall(written)):
            if word != '{gpu}':
                yield f'{word} stays as it is; did you mean {{gpu}}?'


def _suggestion(kind: str, key: str) -> str:
    elsewhere = [other for other in KEYS if key in names_of(other)]
    if elsewhere:
        return f'; it belongs in [{elsewhere[-1]}]'
    near = nearest_key(kind, key)
    return f'; did you mean {near}?' if near else ''
