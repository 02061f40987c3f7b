"""Texts in the lines of a log of regions: names, attributes and their limits."""

from __future__ import annotations

try:
    from _json import encode_basestring as _quoted  # json itself costs 3 ms
except ImportError:
    from json.encoder import encode_basestring as _quoted  # PyPy

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

LONGEST_NAME = 1000
"""Characters."""

_LONGEST_ATTRIBUTES = 2500
_LONGEST_OTHER = 200
_TOO_LARGE = 1 << 63
_CUT = '…'
_CUT_ATTRIBUTES = '"(truncated)":true'
_ESCAPES = {ord('\\'): '\\\\', ord('\t'): '\\t', ord('\n'): '\\n', ord('\r'): '\\r'}


def field(text: str, longest: int = _LONGEST_OTHER) -> str:
    """Return ``text`` as a field of a line, cut at ``longest`` characters; ``-`` for an empty one."""
    if len(text) > longest:
        text = text[: longest - 1] + _CUT
    return text.translate(_ESCAPES) or '-'


def attributes_field(attributes: Mapping[str, object] | None) -> str:
    """Return ``attributes`` as a JSON object in a field, ``-`` for none. A mark stands for those beyond the limit."""
    if not attributes:
        return '-'
    parts: list[str] = []
    left = _LONGEST_ATTRIBUTES - len(_CUT_ATTRIBUTES)
    for key, value in attributes.items():
        part = f'{_json_text(key)}:{_json(value)}'
        left -= len(part.encode('utf-8', 'replace')) + 1
        if left < 0:
            parts.append(_CUT_ATTRIBUTES)
            break
        parts.append(part)
    return f'{{{",".join(parts)}}}'.translate(_ESCAPES)


def _json(value: object) -> str:
    """Return a number, a truth value or None as JSON, and everything else as a text in JSON."""
    if value is None:
        return 'null'
    if type(value) is bool:
        return 'true' if value else 'false'
    if (type(value) is int and abs(value) < _TOO_LARGE) or (type(value) is float and abs(value) < float('inf')):
        return repr(value)
    try:
        return _json_text(str(value))
    except Exception:  # noqa: BLE001 - a text method of the user's that fails is no reason to fail for a region
        return _json_text(f'({type(value).__name__})')


def _json_text(text: str) -> str:
    if len(text) > LONGEST_NAME:
        text = text[: LONGEST_NAME - 1] + _CUT
    return str(_quoted(text))
