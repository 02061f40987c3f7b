"""A table of a TOML file whose values are checked one by one, so that each error names its key."""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING

from gpu_tracker.fleet.config.cluster import ClusterError, accepted_seconds

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

_LONGEST_SHOWN = 100


class Table:
    """A table; a key that it must not have is an error.

    :param place: Where it stands, as errors name it; empty: the file itself.
    :param values: What it holds.
    :param keys: The keys that it may have.
    :raises ClusterError: It has another one.
    """

    def __init__(self, place: str, values: Mapping[str, object], keys: Sequence[str]) -> None:
        self._place = place
        self._values = values
        for key in values:
            if key not in keys:
                near = difflib.get_close_matches(key, keys, 1)
                meant = f'did you mean {near[0]}?' if near else f'known are {", ".join(keys)}'
                raise self.error(key, f'is no key that is known here; {meant}')

    @property
    def own_name(self) -> str:
        """The last part of its place."""
        return self._place.partition('.')[2]

    def error(self, key: str, text: str) -> ClusterError:
        """Return an error that names the key."""
        return ClusterError(': '.join(part for part in (self._place, key, text) if part))

    def has(self, key: str) -> bool:
        """Tell whether the key is there."""
        return key in self._values

    def is_false(self, key: str) -> bool:
        """Tell whether the key is there and false, which switches off what would hold else."""
        return self._values.get(key) is False

    def text(self, key: str, accepted: str) -> str | None:
        """Return a text that is not empty; None: the key is not there."""
        value = self._values.get(key)
        if value is None:
            return None
        if not isinstance(value, str) or not value.strip() or not value.isprintable():
            raise self._refused(key, accepted, value)
        return value

    def flag(self, key: str) -> bool | None:
        """Return true or false; None: the key is not there."""
        value = self._values.get(key)
        if value is not None and not isinstance(value, bool):
            raise self._refused(key, 'true or false', value)
        return value

    def seconds(self, key: str, limits: tuple[float, float], default: float) -> float:
        """Return a number of seconds within limits."""
        value = self._values.get(key, default)
        if isinstance(value, bool) or not isinstance(value, int | float) or not limits[0] <= value <= limits[1]:
            raise self._refused(key, accepted_seconds(limits), value)
        return float(value)

    def tables(self, key: str, keys: Sequence[str]) -> Iterator[Table]:
        """Return the tables of a table, each with a name that one may choose."""
        groups = self._values.get(key, {})
        if not isinstance(groups, dict):
            raise self._refused(key, f'tables, such as [{key}.NAME]', groups)
        for name, values in groups.items():
            if not isinstance(values, dict) or not name.strip() or not name.isprintable():
                raise self._refused(key, f'tables, such as [{key}.NAME]', name)
            yield Table(f'{key}.{name}', values, keys)

    def entries(self, key: str, keys: Sequence[str], accepted: str) -> Iterator[Table]:
        """Return the entries of a list, a text standing for a table that has nothing but the first of ``keys``."""
        entries = self._values.get(key, [])
        if not isinstance(entries, list):
            raise self._refused(key, f'a list; each entry is {accepted}', entries)
        for number, entry in enumerate(entries, 1):
            place = ': '.join(part for part in (self._place, key, f'entry {number}') if part)
            if not isinstance(entry, str | dict):
                raise self._refused(f'{key}: entry {number}', accepted, entry)
            yield Table(place, {keys[0]: entry} if isinstance(entry, str) else entry, keys)

    def _refused(self, key: str, accepted: str, value: object) -> ClusterError:
        shown = repr(value)
        if '@' in shown or '?' in shown:
            shown = 'what stands there'  # a URL with a password or a token in it
        elif len(shown) > _LONGEST_SHOWN:
            shown = f'{shown[:_LONGEST_SHOWN]}...'
        return self.error(key, f'must be {accepted}, not {shown}')
