"""The file in which a site changes thresholds, and adds sentences to advice."""

from __future__ import annotations

import os
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any

from gpu_tracker.advice.thresholds import Thresholds

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

SITE_FILE = '/etc/gpu-tracker/advice.toml'
VARIABLE = 'GPU_TRACKER_ADVICE_FILE'
"""Names another file."""


@dataclass(frozen=True, slots=True)
class Site:
    """What a site says.

    :ivar thresholds: Its thresholds.
    :ivar sentences: A sentence that follows the text of a rule, by the name of the rule.
    :ivar problem: Why its file is not used; None: it is, or there is none.
    """

    thresholds: Thresholds = Thresholds()  # noqa: RUF009 - it cannot be changed
    sentences: Mapping[str, str] = field(default_factory=dict)
    problem: str | None = None


def read_site(rules: Collection[str], path: str | None = None) -> Site:
    """Return what the file of a site says.

    :param rules: The names of the rules.
    :param path: The file; None: the usual one.
    """
    path = path or os.environ.get(VARIABLE)
    is_optional = not path
    path = path or SITE_FILE
    try:
        with open(path, 'rb') as file:
            import tomllib  # noqa: PLC0415 - most machines have no such file

            content = tomllib.load(file)
        return _site_of(content, rules)
    except (OSError, ValueError, RecursionError) as error:
        if is_optional and isinstance(error, FileNotFoundError):
            return Site()
        reason = error.strerror if isinstance(error, OSError) else error
        return Site(problem=f'{path} is not used: {reason}.')


def _site_of(content: Mapping[str, Any], rules: Collection[str]) -> Site:
    accepted = {'thresholds': {one.name for one in fields(Thresholds)}, 'sentences': set(rules)}
    kinds = {'thresholds': (int, float), 'sentences': (str,)}
    for name, part in content.items():
        if name not in accepted or not isinstance(part, dict):
            raise ValueError(f'only the tables [thresholds] and [sentences] are accepted, not {name}')
        for key, value in part.items():
            if key not in accepted[name]:
                raise ValueError(f'the table [{name}] must not have the key {key!r}')
            if type(value) not in kinds[name] or (name == 'thresholds' and not 0 < value < float('inf')):
                raise ValueError(f'{key} cannot be {value!r}')
    return Site(Thresholds(**content.get('thresholds', {})), content.get('sentences', {}))
