"""A :class:`~gpu_tracker.usage.ResourceUsage` as text or JSON; ``FORMATS`` is the table of all formats."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from gpu_tracker.usage import ResourceUsage

_INDENT = '   '
_DECIMALS = 3
_ACRONYMS = {'ram': 'RAM', 'gpu': 'GPU', 'cpu': 'CPU', 'rss': 'RSS', 'gpus': 'GPUs', 'n': 'number of'}


def as_text(usage: ResourceUsage) -> str:
    """Return one section a resource, three blanks an indent level, floats rounded to three places."""
    return '\n'.join(_lines(_fields(usage), ''))


def as_json(usage: ResourceUsage) -> str:
    """Return the fields of ``usage`` as a JSON object, unrounded, indented by one blank; unknown values are null."""
    import json  # noqa: PLC0415 - the text is there also where a json.py of the program's own hides this one

    return json.dumps(_fields(usage), indent=1)


FORMATS: dict[str, Callable[[ResourceUsage], str]] = {'text': as_text, 'json': as_json}


def _fields(usage: ResourceUsage) -> dict[str, object]:
    from dataclasses import asdict  # noqa: PLC0415 - costs 10 ms, and whoever only looks at FORMATS needs none of it

    return asdict(usage)


def _lines(fields: Mapping[str, object], indent: str) -> Iterator[str]:
    for name, value in fields.items():
        if isinstance(value, dict):
            yield f'{indent}{_title(name)}:'
            yield from _lines(value, indent + _INDENT)
        else:
            yield f'{indent}{_title(name)}: {_value(value)}'


def _title(name: str) -> str:
    """Turn ``main_n_threads`` into ``Main number of threads``."""
    title = ' '.join(_ACRONYMS.get(word, word) for word in name.split('_'))
    return title[0].upper() + title[1:]


def _value(value: object) -> str:
    if value is None:
        return 'N/A'
    return str(round(value, _DECIMALS)) if isinstance(value, float) else str(value)
