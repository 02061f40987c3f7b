"""What is wrong between sections of which each is fine by itself, and what no section should be called."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpu_tracker.idle.config import keys
from gpu_tracker.idle.config.problem import Problem

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gpu_tracker.idle.config.document import Document
    from gpu_tracker.idle.config.settings import GpuSection, Settings
    from gpu_tracker.idle.gpu_id import GpuId


def contradictions(document: Document, settings: Settings) -> Iterator[Problem]:
    """Return the errors between sections."""
    yield from _watched_twice(document, settings)
    # Where a list of GPUs could not be read, nobody knows which GPUs are watched.
    if not any(section.gpus == () for section in settings.gpus):
        yield from _unwatched(document, settings)


def oddities(document: Document, settings: Settings) -> Iterator[Problem]:
    """Return what is most likely a mistake: unknown sections and keys, and nothing to run."""
    for section in document.sections.values():
        kind = keys.FOR_ALL if section.name == keys.FOR_ALL else keys.kind_of(section.name)
        if kind is None:
            near = keys.nearest_section(section.name)
            text = 'is not known, and left out' + (f'; did you mean [{near}]?' if near else '')
            yield Problem(section.line, section.name, text)
            continue
        for key, line in section.lines.items():
            if key not in keys.names_of(kind):
                yield Problem(line, section.name, f'{key}: is not known here, and left out{_meant(kind, key)}')
    if not settings.programs:
        yield Problem(None, None, 'has no [process-NAME] section: GPUs are watched, and nothing is started')


def _meant(kind: str, key: str) -> str:
    elsewhere = [other for other in keys.KEYS if key in keys.names_of(other)]
    if elsewhere:
        return f'; it belongs in [{elsewhere[-1]}]'
    near = keys.nearest_key(kind, key)
    return f'; did you mean {near}?' if near else ''


def _watched_twice(document: Document, settings: Settings) -> Iterator[Problem]:
    first: dict[GpuId | None, GpuSection] = {}
    for section in settings.gpus:
        for gpu in (None,) if section.gpus is None else section.gpus:
            if gpu in first:
                what = 'ALL is' if gpu is None else f'GPU {gpu} is'
                line = _line(document, first[gpu].name)
                text = f'gpus: {what} that of [{first[gpu].name}] in line {line} already'
                yield Problem(_line(document, section.name), section.name, text)
            first.setdefault(gpu, section)


def _unwatched(document: Document, settings: Settings) -> Iterator[Problem]:
    for program in settings.programs:
        for gpu in program.gpus or ():
            if settings.section_of(gpu) is None:
                name = program.name
                yield Problem(_line(document, name), name, f'gpus: no [gpu-NAME] section watches GPU {gpu}')


def _line(document: Document, section: str) -> int:
    return document.sections[section].line_of('gpus')
