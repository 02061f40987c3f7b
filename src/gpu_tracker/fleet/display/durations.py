"""Ages in words."""

from __future__ import annotations

_MINUTE = 60
_HOUR = 60 * _MINUTE
_DAY = 24 * _HOUR
_MOMENT = 10
"""Seconds; whatever is not older has happened just now."""

_UNITS = ((_DAY, 'a day', 'days'), (_HOUR, 'an hour', 'hours'), (_MINUTE, 'a minute', 'minutes'))


def ago(seconds: float) -> str:
    """Return an age in whole units: ``14 hours ago``; a clock that was set back makes it ``just now``."""
    for length, one, many in _UNITS:
        count = int(seconds // length)
        if count == 1:
            return f'{one} ago'
        if count > 1:
            return f'{count} {many} ago'
    return f'{int(seconds)} seconds ago' if seconds >= _MOMENT else 'just now'
