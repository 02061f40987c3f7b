"""Results and comparisons as text, laid out as gpu-tracker 5 does: titles, indented tables, up to eight decimals."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gpu_tracker.system.terminal_text import printable

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_DECIMALS = 8


def results_text(results: Mapping[str, Any]) -> str:
    """Return the text of results, given as their ``to_json()``."""
    lines = ['Overall:', *_indented(_table(results['overall'])), 'Static Data:']
    lines += _indented(_table({'': results['static_data']}, is_static=True))
    lines.append('Code Block Results:')
    for block in results['code_block_results']:
        lines += _indented(_block(block))
        lines.append('')
    return '\n'.join([*lines, ''])


def comparison_text(comparison: Mapping[str, Any]) -> str:
    """Return the text of a comparison, given as its ``to_json()``."""
    lines = ['Overall Resource Usage:']
    for measurement, sessions in comparison['overall_resource_usage'].items():
        lines += _indented([f'{_title(measurement)}:', *_indented(_table({'': sessions}))])
    lines.append('Code Block Resource Usage:')
    for measurement, blocks in comparison['code_block_resource_usage'].items():
        lines += _indented([f'{_title(measurement)}:', *_indented(_blocks(blocks))])
    lines += ['Code Block Compute Time:', *_indented(_blocks(comparison['code_block_compute_time']))]
    missing = comparison['code_blocks_missing']
    if missing:
        lines.append('Code Blocks Not In All:')
        lines += [f'\t{printable(name)}: in {", ".join(map(printable, names))}' for name, names in missing.items()]
    return '\n'.join([*lines, ''])


def _block(block: Mapping[str, Any]) -> list[str]:
    counts = {
        'Name': printable(block['name']),
        'Num Timepoints': block['num_timepoints'],
        'Num Calls': block['num_calls'],
        'Num Non Empty Calls': block['num_non_empty_calls'],
    }
    if block['num_unfinished_calls']:
        counts['Num Unfinished Calls'] = block['num_unfinished_calls']
    width = max(map(len, counts)) + 1
    lines = [f'{name + ":":{width}} {value}' for name, value in counts.items()]
    lines += ['Compute Time:', *_indented(_table({'': block['compute_time']}))]
    return [*lines, 'Resource Usage:', *_indented(_table(block['resource_usage']))]


def _blocks(blocks: Mapping[str, Mapping[str, Any]]) -> Iterator[str]:
    for name, sessions in blocks.items():
        yield f'{printable(name)}:'
        yield from _indented(_table({'': sessions}))


def _table(rows: Mapping[str, Mapping[str, Any]], *, is_static: bool = False) -> list[str]:
    """Return a line with the names of the columns and one for each row, with the widths of pandas.

    pandas puts a blank before the names of numeric columns, but before the values of the others, which are static.
    """
    columns = list(next(iter(rows.values()), {}))
    before_name, before_value = ('', ' ') if is_static else (' ', '')
    cells = [['', *(f'{before_name}{printable(name)}' for name in columns)]]
    cells += ([name, *(f'{before_value}{_value(value)}' for value in row.values())] for name, row in rows.items())
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    return [
        ' '.join([name.ljust(widths[0]), *(cell.rjust(width) for cell, width in zip(row, widths[1:], strict=True))])
        for name, *row in cells
    ]


def _value(value: Any) -> str:  # noqa: ANN401 - text, number or None
    if value is None:
        return 'N/A'
    if isinstance(value, float):
        return str(float(f'{value:.{_DECIMALS}f}'))
    return printable(str(value))


def _title(name: str) -> str:
    return name.replace('_', ' ').title()


def _indented(lines: list[str] | Iterator[str]) -> list[str]:
    return [f'\t{line}' for line in lines]
