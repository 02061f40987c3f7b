"""Reads what run a recording is of."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from gpu_tracker.errors import RecordingError
from gpu_tracker.job import checked
from gpu_tracker.limits import known
from gpu_tracker.recording.reading.database import INTEGER_OR_NONE, NUMBER_OR_NONE, TEXT_OR_NONE
from gpu_tracker.recording.reading.model import Meta
from gpu_tracker.result.usage import JobIdentity
from gpu_tracker.units import MEMORY_UNITS, TIME_UNITS

if TYPE_CHECKING:
    from gpu_tracker.recording.reading.database import Database, Types

_TEXTS = ('program', 'folder', 'host', 'system', 'machine', 'python', 'started', 'ended')
_NUMBERS = ('cores', 'ram_capacity', 'start_unix_us', 'start_monotonic_us', 'root_pid', 'exit_code')


def read_meta(database: Database) -> Meta:
    """Return the meta of a recording.

    :raises RecordingError: where a value is not what it has to be; one that is not there is None.
    """
    values: dict[str, Any] = {key: _value(database, key, TEXT_OR_NONE) for key in _TEXTS}
    values |= {key: _value(database, key, INTEGER_OR_NONE) for key in _NUMBERS}
    totals = _plain(database, 'totals')
    if totals is not None and not isinstance(totals, dict):
        raise _wrong(database, 'totals')
    sections = _texts(database, 'sections')
    return Meta(
        **values,
        command=_texts(database, 'command'),
        interval=_value(database, 'interval', NUMBER_OR_NONE),
        units=_units(database),
        sections=() if sections is None else sections,
        totals=totals,
        oom_kills=_value(database, 'oom_kills', INTEGER_OR_NONE) or 0,
        job=_job(database),
        region_lines_lost=_value(database, 'region_lines_lost', INTEGER_OR_NONE) or 0,
        samples_lost=_value(database, 'samples_lost', INTEGER_OR_NONE) or 0,
        termination_reason=known(_value(database, 'termination_reason', TEXT_OR_NONE)),
    )


def plain(text: str) -> Any:  # noqa: ANN401 - whatever JSON says
    """Return what a JSON text says.

    :raises ValueError: where it is none, or one that is nested too deeply.
    """
    try:
        return json.loads(text)
    except RecursionError as error:
        raise ValueError('the JSON text is nested too deeply') from error


def _value(database: Database, key: str, types: Types) -> Any:  # noqa: ANN401 - as the types say
    value = database.value('SELECT value FROM meta WHERE key = ?', key)
    if type(value) not in types:
        raise database.wrong_type('meta', key, value, types)
    return value


def _plain(database: Database, key: str) -> Any:  # noqa: ANN401 - whatever JSON says
    text = _value(database, key, TEXT_OR_NONE)
    try:
        return None if text is None else plain(text)
    except ValueError as error:
        raise _wrong(database, key) from error


def _texts(database: Database, key: str) -> tuple[str, ...] | None:
    found = _plain(database, key)
    if found is None:
        return None
    if not isinstance(found, list) or not all(isinstance(word, str) for word in found):
        raise _wrong(database, key)
    return tuple(found)


def _job(database: Database) -> JobIdentity | None:
    found = _plain(database, 'job')
    try:
        return None if found is None else JobIdentity(**checked(found))
    except ValueError as error:
        raise _wrong(database, 'job') from error


def _units(database: Database) -> tuple[str, str, str, int | None] | None:
    found = _plain(database, 'units')
    if found is None:
        return None
    try:
        ram, gpu_ram, time, cores = found
        is_known = ram in MEMORY_UNITS and gpu_ram in MEMORY_UNITS and time in TIME_UNITS
    except (TypeError, ValueError):
        is_known = False
    if not is_known or not (cores is None or (type(cores) is int and cores > 0)):
        raise _wrong(database, 'units')
    return ram, gpu_ram, time, cores


def _wrong(database: Database, key: str) -> RecordingError:
    return RecordingError(f'{database.path} is not a gpu-tracker recording: meta.{key} cannot be read')
