"""The text of a configuration file -> its settings, with all that is wrong with it at once."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from gpu_tracker.idle.config import across, keys, sections
from gpu_tracker.idle.config.document import Document, read_document
from gpu_tracker.idle.config.problem import Problem, sorted_by_line
from gpu_tracker.idle.config.reader import SectionReader
from gpu_tracker.idle.config.settings import Settings

if TYPE_CHECKING:
    from gpu_tracker.idle.config.caller import Caller


class Parsed(NamedTuple):
    """A text as far as it can be told without a look at the machine."""

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
    readers = {name: SectionReader(section, errors, warnings) for name, section in document.sections.items()}
    of_kind = {kind: [reader for name, reader in readers.items() if keys.kind_of(name) == kind] for kind in keys.KEYS}

    inherited = sections.Defaults()
    for reader in of_kind[keys.DEFAULTS]:
        inherited = sections.defaults(reader)
    terminals = None
    for reader in of_kind[keys.TTY]:
        terminals = sections.terminals(reader)
    named = Settings(
        inherited.interval,
        tuple(sections.gpu_section(reader, inherited.gpu) for reader in of_kind[keys.GPU]),
        tuple(sections.program(reader, inherited.program, caller) for reader in of_kind[keys.PROCESS]),
        terminals,
    )
    added = []
    for program, gpu in across.unnamed(named):
        added.append(replace(inherited.gpu, name=program.name, gpus=(gpu,)))
        text = f'no [gpu-NAME] section names GPU {gpu}: it is watched too, because this program runs on it'
        readers[program.name].warn('gpus', text)
    if not named.gpus and inherited.gpu != sections.Defaults().gpu:
        added.append(replace(inherited.gpu, name=keys.DEFAULTS, gpus=None))
    settings = replace(named, gpus=(*named.gpus, *added))
    warnings.extend(across.oddities(document, settings))
    return Parsed(settings, sorted_by_line(errors), sorted_by_line(warnings), document)
