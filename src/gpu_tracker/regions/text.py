"""Texts in the lines of a log of regions: names, attributes and their limits."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

LONGEST_LINE = 4000
"""Bytes. Shorter than a page: the kernel appends a line in one piece."""
LONGEST_NAME = 1000
"""Characters."""

_LONGEST_ATTRIBUTES = 2500
_LONGEST_OTHER = 200
_TOO_LARGE = 1 << 63
_CUT = '…'
_CUT_ATTRIBUTES = '"(truncated)":true}'
_ESCAPES = {ord('\\'): '\\\\', ord('\t'): '\\t', ord('\n'): '\\n', ord('\r'): '\\r'}
_JSON_ESCAPES = {
    **{number: f'\\u{number:04x}' for number in (*range(32), 127, *range(0xD800, 0xE000))},
    ord('"'): '\\"',
    ord('\\'): '\\\\',
}


def field(text: str, longest: int = _LONGEST_OTHER) -> str:
    """Return ``text`` as a field of a line, cut at ``longest`` characters; ``-`` for an empty one."""
    if len(text) > longest:
        text = text[: longest - 1] + _CUT
    return text.translate(_ESCAPES) or '-'


def attributes_field(attributes: Mapping[str, object]) -> str:
    """Return ``attributes`` as a JSON object in a field; those beyond the limit are left out, which a mark says."""
    parts: list[str] = []
    left = _LONGEST_ATTRIBUTES - len(_CUT_ATTRIBUTES) - 1
    for key, value in attributes.items():
        part = f'{_json_text(key)}:{_json(value)}'
        left -= (len(part) if part.isascii() else len(part.encode('utf-8', 'replace'))) + 1
        if left < 0:
            parts.append(_CUT_ATTRIBUTES[:-1])
            break
        parts.append(part)
    return f'{{{",".join(parts)}}}'.translate(_ESCAPES)


def shortened(start: str, name: str, end: str) -> bytes:
    """Return a line of ``start``, the field ``name``, and the field ``end``; what is too long is cut."""
    if end.startswith('{'):
        end = f'{{{_CUT_ATTRIBUTES}'
    room = LONGEST_LINE - len(f'{start}\t\t{end}\n'.encode('utf-8', 'replace')) - len(_CUT.encode())
    cut = name.encode('utf-8', 'replace')
    if len(cut) > room:
        name = cut[:room].decode('utf-8', 'ignore').rstrip('\\') + _CUT
    return f'{start}\t{name}\t{end}\n'.encode('utf-8', 'replace')


def encoded(start: str, name: str, end: str) -> bytes:
    """Return the line as it is, where it is not too long."""
    line = f'{start}\t{name}\t{end}\n'.encode('utf-8', 'replace')
    return line if len(line) <= LONGEST_LINE else shortened(start, name, end)


def _json(value: object) -> str:
    """Return ``value`` as JSON: a number, a truth value or null as such, everything else as text."""
    kind = type(value)
    if value is None:
        return 'null'
    if kind is bool:
        return 'true' if value else 'false'
    if kind is int and abs(value) < _TOO_LARGE:  # type: ignore[arg-type]
        return str(value)
    if kind is float and abs(value) < float('inf'):  # type: ignore[arg-type]
        return repr(value)
    try:
        return _json_text(str(value))
    except Exception:  # noqa: BLE001 - a text method of the user's that fails is no reason to fail for a region
        return _json_text(f'({kind.__name__})')


def _json_text(text: str) -> str:
    if len(text) > LONGEST_NAME:
        text = text[: LONGEST_NAME - 1] + _CUT
    return f'"{text.translate(_JSON_ESCAPES)}"'
