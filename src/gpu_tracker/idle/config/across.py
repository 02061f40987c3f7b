"""What sections mean together, and what no section should be called."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpu_tracker.idle.config import keys
from gpu_tracker.idle.config.interpolation import referred_to
from gpu_tracker.idle.config.problem import Problem

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gpu_tracker.idle.config.document import Document
    from gpu_tracker.idle.config.settings import Program, Settings
    from gpu_tracker.idle.gpu_id import GpuId


def unnamed(settings: Settings) -> Iterator[tuple[Program, GpuId]]:
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


def oddities(document: Document, settings: Settings) -> Iterator[Problem]:
    """Return what is most likely a mistake: unknown sections and keys, and nothing to run."""
    used = {
        key
        for section in document.sections.values()
        for written in section.values.values()
        for key in referred_to(written)
    }
    for section in document.sections.values():
        kind = keys.FOR_ALL if section.name == keys.FOR_ALL else keys.kind_of(section.name)
        if kind is None:
            near = keys.nearest_section(section.name)
            text = 'is not known, and left out' + (f'; did you mean [{near}]?' if near else '')
            yield Problem(section.line, section.name, text)
            continue
        for key, line in section.lines.items():
            if key not in used and key not in keys.names_of(kind):
                yield Problem(line, section.name, f'{key}: is not known here, and left out{_meant(kind, key)}')
    if not settings.programs:
        yield Problem(None, None, 'has no [process-NAME] section: GPUs are watched, and nothing is started')


def _meant(kind: str, key: str) -> str:
    elsewhere = [other for other in keys.KEYS if key in keys.names_of(other)]
    if elsewhere:
        return f'; it belongs in [{elsewhere[-1]}]'
    near = keys.nearest_key(kind, key)
    return f'; did you mean {near}?' if near else ''
