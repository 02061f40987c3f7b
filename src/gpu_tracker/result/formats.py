"""The formats of a result: text, JSON, summary and CSV; and its one line."""

from __future__ import annotations

from typing import NamedTuple

from gpu_tracker import units

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
    from typing import Any

    from gpu_tracker.result.cuda_usage import CUDAUsage
    from gpu_tracker.result.usage import ResourceUsage


_INDENT = '   '
_DECIMALS = 3
_ACRONYMS = {
    'ram': 'RAM', 'gpu': 'GPU', 'cpu': 'CPU', 'rss': 'RSS', 'gpus': 'GPUs', 'n': 'number of',
    'cuda': 'CUDA', 'io': 'I/O', 'pid': 'PID', 'uuid': 'UUID', 'mig': 'MIG',
    'oom': 'OOM', 'sm': 'SM', 'dram': 'DRAM', 'pcie': 'PCIe', 'nvlink': 'NVLink',
}  # fmt: skip
_CUDA_FOOTNOTE = 'Launch to sync is not GPU time: the GPU may have finished earlier.'
_NO_CALL = 'No CUDA call was seen.'
_ON_ONE_LINE = {'gpus', 'kernels', 'failures'}
"""Lists whose entries have few fields."""


_LISTS_OF_GPUS = {'gpus': 'gpu', 'gpu_activity': 'gpu activity'}
"""Sections with an entry for each GPU, and the headings of the entries."""
_UNITS_OF = {'max_gpu_ram': 'gpu_ram', 'compute_time': 'time', 'cuda': ''}
"""The unit that a section is in, if that is not the unit of RAM; no other unit is taken for CUDA."""
_SIZES, _TIMES = ('bytes', 'bytes/s'), ('seconds',)


def as_text(usage: ResourceUsage, adaptive: Collection[str] = ()) -> str:
    """Return one section a resource, three blanks an indent level, floats rounded to three places.

    :param adaptive: Of ``ram``, ``gpu_ram`` and ``time`` those whose figures are shown each in the unit that suits it;
        ``usage`` has them in bytes and in seconds.
    """
    found: list[str] = []
    for name, section in _fields(usage).items():
        if name in _LISTS_OF_GPUS:
            found += _gpu_lines(name, getattr(usage, name), section, adaptive)
            continue
        kind = _UNITS_OF.get(name, 'ram')
        shown = section
        if isinstance(section, dict) and _is_unknown(section):
            shown = {'problem': section['problem']}  # forty lines of unknown figures would say no more
        elif isinstance(section, dict) and kind in adaptive:
            shown = _in_suitable_units(section, name, _SIZES if kind != 'time' else _TIMES)
        found += _lines({name: shown}, '') if name != 'cuda' or usage.cuda is None else _cuda_lines(usage.cuda, shown)
    found += _list_lines('advice', [one.text for one in usage.advice], '')
    return '\n'.join([*found, *_bounds(usage.lower_bounds)])


def as_json(usage: ResourceUsage) -> str:
    """Return the fields of ``usage`` as a JSON object, unrounded, indented by one blank; unknown values are null."""
    import json  # noqa: PLC0415 - the text is there also where a json.py of the program's own hides this one

    return json.dumps(usage.to_dict(), indent=1)


_WIDTH = 12
_MOST = 12
_LEFT_OUT_FIRST = ('Threads', 'Machine')


def as_summary(usage: ResourceUsage) -> str:
    """Return twelve lines at most with the figures by which people decide, each in the unit that suits it.

    The advice comes after them. Figures of GPUs are left out if there are none. ``N/A`` stands for unknown ones.
    """
    from gpu_tracker.figures import lines  # noqa: PLC0415 - other formats need none of it

    found = list(lines(usage))
    for title in _LEFT_OUT_FIRST:
        if len(found) > _MOST:
            found = [line for line in found if line[0] != title]
    found += [('' if number else 'Advice', one.text) for number, one in enumerate(usage.advice)]
    return '\n'.join(f'{title:<{_WIDTH}}{text}' for title, text in found)


def as_line(usage: ResourceUsage) -> str:
    """Return the first figures of :func:`as_summary` in one line of ASCII."""
    from gpu_tracker.figures import AT_LEAST, IN_ASCII, short  # noqa: PLC0415 - as above

    return short(usage).replace(AT_LEAST, IN_ASCII)


def as_csv(usage: ResourceUsage, command: Sequence[str] = (), exit_code: int | None = None) -> str:
    """Return the report as a table of one run, see :func:`gpu_tracker.result.csv_table.table_of`."""
    from gpu_tracker.result import csv_table  # noqa: PLC0415 - as above

    fields = {**usage.to_dict(), 'lower_bounds': ' '.join(usage.lower_bounds)}
    fields.pop('advice', None)  # sentences, and no columns
    fields |= {name: _largest_of_gpus(usage, name) for name in _LISTS_OF_GPUS if fields.get(name) is not None}
    return csv_table.table_of(fields, command, exit_code)


def _largest_of_gpus(usage: ResourceUsage, section: str) -> dict[str, float | None]:
    """Return the largest figures of all GPUs, in the unit of GPU RAM."""
    from gpu_tracker.figures import figures, value  # noqa: PLC0415 - as above

    found = {}
    for path, row in figures().items():
        if row.section == section:
            number = value(usage, path)
            is_size = row.unit in _SIZES
            found[path.partition('.')[2]] = units.from_bytes(number, usage.max_gpu_ram.unit) if is_size else number
    return found


FORMATS: dict[str, Callable[[ResourceUsage], str]] = {
    'text': as_text,
    'json': as_json,
    'summary': as_summary,
    'csv': as_csv,
}
FORMATS_ACCEPTED = 'text, json, summary or csv'


class Form(NamedTuple):
    """How a report is written.

    :ivar name: A name in :data:`FORMATS`.
    :ivar adaptive: See :func:`as_text`; the other formats know nothing of it.
    :ivar command: The command that is named, where the format has one; empty: none.
    """

    name: str
    adaptive: Collection[str] = ()
    command: Sequence[str] = ()

    def render(self, usage: ResourceUsage, exit_code: int | None) -> str:
        """Return the report of a command with this exit code; None: it is unknown."""
        if self.name == 'csv':
            return as_csv(usage, self.command, exit_code)
        return as_text(usage, self.adaptive) if self.name == 'text' else FORMATS[self.name](usage)


def _in_suitable_units(fields: Mapping[str, Any], path: str, adapted: Collection[str]) -> dict[str, object]:
    """Return the fields of a section, with texts in the place of the figures in one of the units ``adapted``."""
    from gpu_tracker.figures import figures  # noqa: PLC0415 - most reports have fixed units

    found: dict[str, object] = {}
    for name, value in fields.items():
        row = figures().get(f'{path}.{name}')
        if isinstance(value, dict):
            found[name] = _in_suitable_units(value, f'{path}.{name}', adapted)
        elif isinstance(value, float) and row is not None and row.unit in adapted:
            found[name] = units.text_of(value, row.unit)
        elif name != 'unit':
            found[name] = value
    return found


def _fields(usage: ResourceUsage) -> dict[str, Any]:
    from dataclasses import asdict  # noqa: PLC0415 - costs 10 ms, and whoever only looks at FORMATS needs none of it

    # Without sections that were not asked for, the report is as it always was.
    apart = {'advice', 'lower_bounds'}
    return {name: value for name, value in asdict(usage).items() if value is not None and name not in apart}


def _is_unknown(section: Mapping[str, Any]) -> bool:
    """Return whether nothing is known of a section but the problem."""
    return section.get('problem') is not None and all(
        value in (None, ()) or (isinstance(value, dict) and all(inner is None for inner in value.values()))
        for name, value in section.items()
        if name not in {'problem', 'unit'}
    )


def _gpu_lines(
    section: str, gpus: Sequence[Any], entries: Sequence[Mapping[str, Any]], adaptive: Collection[str]
) -> Iterator[str]:
    from gpu_tracker.figures import place_of  # noqa: PLC0415 - most machines have no GPUs

    if section == 'gpus' and not gpus:
        yield 'No GPU was used.'
    for gpu, fields in zip(gpus, entries, strict=True):
        left_out = {'index', 'vendor', *(['gpu_instance'] if fields.get('gpu_instance') is None else [])}
        shown = {name: value for name, value in fields.items() if name not in left_out}
        if 'gpu_ram' in adaptive:
            shown = _in_suitable_units(shown, section, _SIZES)
        yield from _lines({f'{_LISTS_OF_GPUS[section]} {place_of(gpu)}': shown}, '')


def _cuda_lines(cuda: CUDAUsage, section: Mapping[str, Any]) -> Iterator[str]:
    if cuda.engine is None or cuda.combined.processes != 0:
        yield from _lines({'cuda': section}, '')
        if cuda.engine is not None:
            yield f'{_INDENT}Footnote: {_CUDA_FOOTNOTE}'
        return
    yield f'{_title("cuda")}:'  # forty lines of zeros would say no more
    yield from _lines({'problem': cuda.problem}, _INDENT)
    yield f'{_INDENT}{_NO_CALL}'
    yield from _list_lines('notes', cuda.notes, _INDENT)


def _bounds(paths: Sequence[str]) -> Iterator[str]:
    if paths:
        yield 'Lower bounds (the true figures may be larger):'
        yield from (f'{_INDENT}{path}' for path in paths)


def _lines(fields: Mapping[str, object], indent: str) -> Iterator[str]:
    for name, value in fields.items():
        if isinstance(value, dict):
            yield f'{indent}{_title(name)}:'
            yield from _lines(value, indent + _INDENT)
        elif isinstance(value, tuple):
            yield from _list_lines(name, value, indent)
        elif name != 'problem' or value is not None:  # no problem is not an unknown one
            yield f'{indent}{_title(name)}: {_value(value)}'


def _list_lines(name: str, entries: Sequence[object], indent: str) -> Iterator[str]:
    """Yield a list with a heading, its entries numbered where they take several lines; nothing where it is empty."""
    if not entries:
        return
    yield f'{indent}{_title(name)}:'
    inner = indent + _INDENT
    for number, entry in enumerate(entries, 1):
        if not isinstance(entry, dict):
            yield f'{inner}{_value(entry)}'
        elif name in _ON_ONE_LINE:
            yield inner + ', '.join(f'{_title(field)}: {_value(value)}' for field, value in entry.items())
        else:
            yield f'{inner}{number}:'
            yield from _lines(entry, inner + _INDENT)


def _title(name: str) -> str:
    """Turn ``main_n_threads`` into ``Main number of threads``."""
    title = ' '.join(_ACRONYMS.get(word, word) for word in name.replace(' ', '_').split('_'))
    return title[0].upper() + title[1:]


def _value(value: object) -> str:
    if value is None:
        return 'N/A'
    return str(round(value, _DECIMALS)) if isinstance(value, float) else str(value)
