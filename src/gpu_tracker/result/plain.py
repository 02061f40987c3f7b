"""Reads results back from plain data, which is what reports have as JSON."""

from __future__ import annotations

import math
import reprlib
from collections.abc import Mapping
from dataclasses import MISSING, fields, is_dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, get_args, get_origin, get_type_hints

from gpu_tracker.errors import ReportError
from gpu_tracker.figures import figures
from gpu_tracker.limits import ENDINGS, REASONS
from gpu_tracker.result import cuda_usage, usage
from gpu_tracker.units import MEMORY_UNITS, TIME_UNITS

if TYPE_CHECKING:
    from collections.abc import Collection

    from gpu_tracker.result.usage import ResourceUsage

_UNIT = 'unit'
_NO_JSON = (
    'This is no JSON. from_json takes the text of a report, which is what its file holds, not the name of the file.'
)
_CHOICES = {'ending': ENDINGS, 'endings': REASONS}
"""The texts that figures of these units can have."""
_ACCEPTED = {float: 'a number', int: 'a whole number', bool: 'true or false', str: 'a text'}


def from_dictionary(report: Mapping[str, Any]) -> ResourceUsage:
    """Return the result that ``to_dict`` has made ``report`` of; what that does not have is None.

    :raises ReportError: where ``report`` is something else.
    """
    result: ResourceUsage = _record(usage.ResourceUsage, report, '')
    return result


def from_text(text: str | bytes) -> ResourceUsage:
    """Return the result that a report in JSON holds.

    :raises ReportError: where ``text`` is something else.
    """
    import json  # noqa: PLC0415 - see gpu_tracker.result.formats

    try:
        report = json.loads(text)
    except (RecursionError, ValueError) as error:
        raise ReportError(_NO_JSON) from error
    return from_dictionary(report)


@cache
def _kinds(record: type) -> dict[str, Any]:
    """Return the types of a record's fields."""
    return get_type_hints(record, localns={'CUDAUsage': cuda_usage.CUDAUsage, 'Mapping': Mapping})


def _record(kind: Any, plain: object, path: str) -> Any:  # noqa: ANN401 - a class of records, and an instance of it
    if not isinstance(plain, Mapping):
        raise _fault(path, 'an object', plain)
    kinds = _kinds(kind)
    values = {
        field.name: _value(kinds[field.name], plain.get(field.name), f'{path}.{field.name}'.removeprefix('.'))
        for field in fields(kind)
        if field.name in plain or field.default is MISSING
    }
    if _UNIT in values and kind is not usage.EnergyUsage:
        _check(f'{path}.{_UNIT}', values[_UNIT], TIME_UNITS if kind is usage.ComputeTime else MEMORY_UNITS)
    if issubclass(kind, usage.ResourceUsage):
        for name, row in figures().items():
            found = values.get(name) if row.unit in _CHOICES else None
            for text in [found] if isinstance(found, str) else found or ():
                _check(name, text, _CHOICES[row.unit])
    return kind(**values)


def _value(kind: Any, plain: object, name: str) -> Any:  # noqa: ANN401 - an instance of kind
    """Return a field's value.

    :param kind: Its type: a record, a tuple of one type, a mapping from names to one type, or one of the types of JSON,
        with or without None.
    """
    alternatives = get_args(kind)
    if get_origin(kind) is tuple:
        if not isinstance(plain, list | tuple):
            raise _fault(name, 'a list', plain)
        return tuple(_value(alternatives[0], entry, f'{name}[{place}]') for place, entry in enumerate(plain))
    if get_origin(kind) is Mapping:
        if not isinstance(plain, Mapping):
            raise _fault(name, 'an object', plain)
        return {key: _value(alternatives[1], entry, f'{name}.{key}') for key, entry in plain.items()}
    if alternatives:
        return None if plain is None else _value(alternatives[0], plain, name)
    if is_dataclass(kind):
        return _record(kind, plain, name)
    if kind is float and type(plain) is int:
        plain = _as_float(plain)  # others write 0.0 as 0
    if type(plain) is not kind or (kind is float and not math.isfinite(plain)):  # type: ignore[arg-type]  # a float
        raise _fault(name, _ACCEPTED[kind], plain)
    return plain


def _as_float(number: int) -> float:
    try:
        return float(number)
    except OverflowError:
        return math.inf


def _check(name: str, value: str, accepted: Collection[str]) -> None:
    if value not in accepted:
        raise _fault(name, ' or '.join(map(repr, accepted)), value)


def _fault(path: str, accepted: str, found: object) -> ReportError:
    if not path:
        return ReportError(
            f'This is not a report of gpu-tracker: the JSON text is not an object, but {reprlib.repr(found)}'
        )
    is_there = 'is missing' if found is None else f'is {reprlib.repr(found)}'
    return ReportError(f'This is not a report of gpu-tracker: {path} must be {accepted}, but {is_there}')
