"""The parts of a report that need no script: heading, figures, regions, processes, and how the run was sampled."""

from __future__ import annotations

from collections import Counter
from itertools import zip_longest
from typing import TYPE_CHECKING, NamedTuple

from gpu_tracker.advice import advice_in
from gpu_tracker.control_groups.oom_kills import sentence
from gpu_tracker.errors import RecordingError
from gpu_tracker.figures import figure, fullest_first, place_of, text
from gpu_tracker.job import place_in_job
from gpu_tracker.recording.reading import tree
from gpu_tracker.recording.reading.model import or_unknown
from gpu_tracker.recording.reading.shown import bounded, process_figures
from gpu_tracker.recording.schema import ABANDONED
from gpu_tracker.result.sampling import record_of
from gpu_tracker.system.terminal_text import shortened
from gpu_tracker.vendors import label
from gpu_tracker.views.bands import name_of
from gpu_tracker.views.report_page.elements import bar, definitions, element, folded, level, table
from gpu_tracker.views.tiles import difference, tiles_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from xml.etree.ElementTree import Element

    from gpu_tracker.recording.reading.model import Bounded, Meta
    from gpu_tracker.recording.reading.recording import Recording
    from gpu_tracker.recording.reading.tree import PathFigures
    from gpu_tracker.views.panels import Panel

_MOST_ROWS = 200
_LONGEST_COMMAND = 400
_LONGEST_NAME = 80
_MOST_MESSAGES = 50
_HINT = (
    'Press a name to see its calls behind the charts. Share: of the run in which a call was open. '
    'Own CPU: of the threads that made the calls. All CPU: of all processes meanwhile.'
)
_NOT_ENDED = 'The run goes on, or was killed with its sampler'


class RegionLine(NamedTuple):
    """A line of the table of regions: what its calls used, and when at least one of them was open."""

    used: PathFigures
    spans: list[tuple[float, float]]


def command_of(meta: Meta) -> str:
    """Return what was run, in one line."""
    return shortened(meta.title, _LONGEST_COMMAND)


def heading(recordings: Sequence[Recording], names: Sequence[str]) -> Element:
    """Return the heading: what was run, where, when, and how it ended."""
    if len(recordings) == 1:
        title = element('h1', command_of(recordings[0].meta))
        return element('header', title, *_problems(recordings, names), _facts(recordings[0]))
    runs = [
        element('section', element('h2', name), element('p', command_of(run.meta), class_='command'), _facts(run))
        for run, name in zip(recordings, names, strict=True)
    ]
    title = element('h1', f'{len(recordings)} runs side by side')
    return element('header', title, *_problems(recordings, names), element('div', *runs, class_='runs'))


def _facts(recording: Recording) -> Element:
    meta = recording.meta
    kinds = Counter((gpu.name, gpu.total_ram) for gpu in recording.gpus)
    pairs = [
        ('Host', or_unknown(meta.host)),
        *(() if meta.job is None else [('Job', place_in_job(meta.job))]),
        ('Machine', f'{or_unknown(meta.cores)} cores, {figure(meta.ram_capacity, "bytes")} RAM'),
        *(
            ('GPU', f'{f"{count} x " if count > 1 else ""}{or_unknown(name)}, {figure(total, "bytes")}')
            for (name, total), count in kinds.items()
        ),
        ('Started', _started(meta.started)),
        ('Recorded', figure(recording.duration, 'seconds')),
        ('Ended', _ending(meta)),
    ]
    return definitions('facts', pairs)


def _started(date: str | None) -> str:
    """Return a date in ISO 8601 and UTC as people read it, to the second."""
    if date is None:
        return or_unknown(date)
    day, _, time = date.partition('T')
    return f'{day} {time[:8]} UTC' if time else date


def _ending(meta: Meta) -> str:
    if meta.is_complete:
        return meta.exit_in_words or 'when tracking was stopped'
    return 'not seen: the tracker was gone before' if meta.ended == ABANDONED else 'not yet, or the sampler was killed'


def _problems(recordings: Sequence[Recording], names: Sequence[str]) -> Iterator[Element]:
    """Yield what a reader has to know before believing the figures."""
    for recording, name in zip(recordings, names, strict=True):
        meta = recording.meta
        run = f'{name}: ' if len(names) > 1 else ''
        lost = [
            (meta.samples_lost, 'samples could not be written'),
            (meta.region_lines_lost, 'lines of the log of regions could not be kept'),
        ]
        if meta.exit_code or meta.termination_reason:
            yield element('p', f'{run}The program ended {meta.exit_in_words}.', class_='failed')
        if meta.oom_kills:
            yield element('p', f'{run}{sentence(meta.oom_kills)}', class_='failed')
        texts = [f'{count:,} {what}.' for count, what in lost if count]
        if not meta.is_complete:
            is_killed = meta.ended == ABANDONED
            why = 'The tracker was killed, or ended without a stop' if is_killed else _NOT_ENDED
            yield element(
                'p', f'{run}{why}: figures are up to the last commit.', class_='failed' if is_killed else 'problem'
            )
        for problem in texts:
            yield element('p', f'{run}{problem}', class_='problem')


def advice(recordings: Sequence[Recording], names: Sequence[str]) -> Element | None:
    """Return what the runs suggest for the next one; None: nothing."""
    return advice_list(
        [
            f'{name}: {one.text}' if len(names) > 1 else one.text
            for recording, name in zip(recordings, names, strict=True)
            for one in advice_in(recording)
        ]
    )


def advice_list(texts: Sequence[str]) -> Element | None:
    """Return a list of advice; None: there is none."""
    found = [element('li', text) for text in texts]
    return element('section', element('h2', 'Advice'), element('ul', *found), class_='advice') if found else None


def figures(recordings: Sequence[Recording], names: Sequence[str]) -> Element | None:
    """Return the figures that decide: as tiles of one run, as a table of several with their differences."""
    found = [{one.title: one for one in tiles_of(recording)} for recording in recordings]
    titles = list(dict.fromkeys(title for of_run in found for title in of_run))
    if not titles:
        return None
    heading = element('h2', 'Figures')
    if len(recordings) == 1:
        tiles = [(one.title, one.text, one.note) for one in found[0].values()]
        return element('section', heading, definitions('figures', tiles))
    rows = []
    for title in titles:
        values = [of_run.get(title) for of_run in found]
        cells = ['N/A' if one is None else one.text for one in values]
        first = None if values[0] is None else values[0].value
        changes = [difference(None if one is None else one.value, first) for one in values[1:]]
        rows.append([title, cells[0], *_alternating(cells[1:], changes)])
    heads = ['Figure', names[0], *_alternating(names[1:], ['difference'] * (len(names) - 1))]
    return element('section', heading, table(heads, rows))


def gpus(recording: Recording, title: str) -> Element | None:
    """Return what the run used of each GPU, fullest first; nothing for a machine with one GPU, which the tiles have."""
    try:
        usage = recording.summary()
    except RecordingError:
        return None
    if not usage.gpus or len(recording.gpus) < 2:  # noqa: PLR2004 - several
        return None
    found = fullest_first(usage)
    in_use = [gpu for gpu in found if gpu.max_ram.combined != 0 or gpu.own_utilization.max_percent]
    rows = [
        [
            label(gpu.vendor, gpu.index),
            *(
                text(usage, f'gpus.{place_of(gpu)}.{path}')
                for path in ('max_ram.combined', 'capacity', 'utilization.mean_percent', 'own_utilization.mean_percent')
            ),
        ]
        for gpu in in_use
    ]
    uuids = {gpu.uuid for gpu in in_use}
    others = [
        element('li', f'{or_unknown(gpu.name)}, {figure(gpu.total_ram, "bytes")}, {gpu.uuid}')
        for gpu in recording.gpus
        if gpu.uuid not in uuids
    ]
    heads = ['GPU', 'Peak memory', 'of', 'Busy', 'Busy, own']
    rest = folded(f'{len(others)} more that the run did not use', element('ul', *others)) if others else None
    return element('section', element('h2', title), table(heads, rows, class_='gpus') if rows else None, rest)


def charts(runs: Sequence[Sequence[Panel]], names: Sequence[str], part: str) -> Element | None:
    """Return the places of the charts, one row for each panel and one column for each run.

    :param part: Which part of the runs is shown, in words; empty for all.
    """
    keys = list(dict.fromkeys(panel.key for panels in runs for panel in panels))
    if not keys:
        return None
    by_key = [{panel.key: panel for panel in panels} for panels in runs]
    buttons = [
        element('button', text, type='button', title=title, **{'data-zoom': action})
        for text, title, action in (
            ('+', 'Zoom in (+)', 'in'),
            ('\N{MINUS SIGN}', 'Zoom out (-)', 'out'),
            ('←', 'Earlier (Shift and ←)', 'earlier'),
            ('→', 'Later (Shift and →)', 'later'),
            ('All', 'The whole run (0)', 'all'),
        )
    ]
    hint = element('span', 'drag to zoom, double-click for all', class_='hint')
    tools = element('div', *buttons, hint, class_='tools', role='group', aria_label='Time axis')
    rows = []
    for key in keys:
        panel = next(of_run[key] for of_run in by_key if key in of_run)
        places = [
            element(
                'div',
                element('h4', name) if len(names) > 1 else None,
                element('div', class_='chart', tabindex='0', role='img', **{'data-run': str(run), 'data-key': key})
                if key in of_run
                else element('p', 'nothing in this part' if part else 'not recorded', class_='hint'),
            )
            for run, (name, of_run) in enumerate(zip(names, by_key, strict=True))
        ]
        rows.append(
            element('section', element('h3', panel.title, _unit_of(panel)), element('div', *places, class_='runs'))
        )
    script = element('noscript', element('p', 'The charts need JavaScript, which is a part of this page.'))
    said = (
        element('p', f'The charts show the part {part}; all other figures are of the whole run.', class_='part')
        if part
        else None
    )
    bands = element('p', class_='hint', id='bands', hidden='hidden')
    return element('section', element('h2', 'Over time'), said, tools, bands, script, *rows, id='charts')


def _unit_of(panel: Panel) -> Element:
    limit = '' if panel.limit is None else f' · {panel.limit_title}: {figure(panel.limit, panel.unit)}'
    said = {'percent': '100 % is one core' if panel.key == 'cpu' else 'percent'}.get(panel.unit, '')
    return element('small', f' {said}{limit}')


def region_lines(recording: Recording, most_spans: int) -> tuple[list[RegionLine], int]:
    """Return the lines of the table of regions, and how many are left out: those that took least time.

    :param most_spans: Spans of all lines together, of which each line has its longest.
    """
    nodes, _ = tree.merged(recording.regions)
    kept = _longest(nodes)
    found = []
    for node in nodes:
        if node.path not in kept:
            continue
        used = tree.figures_of(node, recording.span_figures, recording.duration)
        spans = tree.union((region.start, region.seen_until) for region in node.regions if not region.is_folded)
        longest = sorted(spans, key=lambda span: span[0] - span[1])[: max(1, most_spans // len(kept))]
        found.append(RegionLine(used, sorted(longest)))
    return found, len(nodes) - len(found)


def _longest(nodes: Sequence[tree.Node]) -> set[tuple[str, ...]]:
    """Return the paths of the nodes that took most time, with those around them."""
    seconds = {node.path: sum(region.seen_until - region.start for region in node.regions) for node in nodes}
    kept: set[tuple[str, ...]] = set()
    for path in sorted(seconds, key=lambda path: -seconds[path]):
        around = {path[:length] for length in range(1, len(path) + 1)}
        if len(kept | around) > _MOST_ROWS:
            break
        kept |= around
    return kept


def regions(
    runs: Sequence[Sequence[RegionLine]], names: Sequence[str], left_out: int, *, has_gpus: bool
) -> Element | None:
    """Return the table of regions: of one run with all figures, of several with their times and differences.

    :param left_out: How many lines there are besides.
    :param has_gpus: Whether figures of GPUs say anything.
    """
    if not any(runs):
        return None
    heading = element('h2', 'Regions')
    more = f'{left_out:,} lines that took less time are left out: gpu-tracker show -f json has them.'
    end = element('p', more, class_='hint') if left_out else None
    if len(runs) == 1:
        hint = element('p', _HINT, class_='hint')
        return element('section', heading, hint, _regions_of_one(runs[0], has_gpus=has_gpus), end)
    by_path = [{line.used.path: line.used for line in lines} for lines in runs]
    rows: list[list[Element | str]] = []
    for path in dict.fromkeys(line.used.path for lines in runs for line in lines):
        times = [of_run[path].wall_time if path in of_run else None for of_run in by_path]
        changes = [difference(time, times[0]) for time in times[1:]]
        texts = ['' if time is None else figure(time, 'seconds') for time in times]
        rows.append([_indented(path), texts[0], *_alternating(texts[1:], changes)])
    heads = ['Region: time of all calls', names[0], *_alternating(names[1:], ['difference'] * (len(names) - 1))]
    return element('section', heading, table(heads, rows, class_='regions'))


def _regions_of_one(lines: Sequence[RegionLine], *, has_gpus: bool) -> Element:
    rows: list[list[Element | str]] = []
    for number, line in enumerate(lines):
        used = line.used
        name = _indented(used.path)
        if line.spans:
            name.append(
                element(
                    'button', name_of(used.path[-1]), type='button', aria_pressed='false', **{'data-line': str(number)}
                )
            )
            name.text = None
        time = figure(used.wall_time, 'seconds')
        cells = [
            f'{used.calls:,}',
            f'≥ {time}' if used.not_ended else time,
            '' if used.share is None else f'{used.share:.1%}',
            figure(used.thread_cpu, 'seconds'),
            _bounded(used.cpu, 'seconds'),
            _bounded(used.ram, 'bytes'),
        ]
        if has_gpus:
            cells.append('' if used.gpu_utilization is None else f'~ {figure(used.gpu_utilization, "percent")}')
        cells.append(f'{used.errors:,}' if used.errors else '')
        rows.append([name, *cells])
    heads = [
        'Region',
        'Calls',
        'Time',
        'Share',
        'Own CPU',
        'All CPU',
    ]
    heads += ['RAM, most', *(['GPU'] if has_gpus else []), 'Raised']
    return table(heads, rows, class_='regions')


def _indented(path: Sequence[str]) -> Element:
    return level(name_of(path[-1]), len(path) - 1)


def _bounded(found: Bounded | None, unit: str) -> str:
    return bounded(found, lambda value: figure(value, unit), ('~ ', '≥ ', '≤ '))


def processes(recording: Recording, title: str) -> Element | None:
    """Return the processes as bars over the time in which each was seen, where they were recorded."""
    known = process_figures(recording)
    if not known:
        return None
    whole = max(recording.duration or 0.0, *(one.last_t for one in known)) or 1.0
    largest = sorted(known, key=lambda one: -(one.max_rss or 0))[:_MOST_ROWS]
    used_gpus = any(one.max_gpu_ram for one in known)
    rows: list[list[Element | str]] = [
        [
            element('span', shortened(one.name, _LONGEST_NAME), element('small', f' {one.pid}')),
            bar(one.first_t / whole, one.last_t / whole, f'{one.name} from {one.first_t:.3g} s to {one.last_t:.3g} s'),
            figure(one.max_rss, 'bytes') if one.max_rss else '',
            *(['' if one.max_gpu_ram is None else figure(one.max_gpu_ram, 'bytes')] if used_gpus else []),
            '' if one.cpu is None else figure(one.cpu, 'seconds'),
        ]
        for one in sorted(largest, key=lambda one: (one.first_t, one.pid))
    ]
    heads = ['Process', 'Seen', 'Largest RAM', *(['GPU RAM'] if used_gpus else []), 'CPU time']
    more = len(known) - len(rows)
    left_out = element('p', f'{more:,} smaller ones are left out.', class_='hint') if more > 0 else None
    body = table(heads, rows, (0, 1), class_='processes')
    return element('section', element('h2', title), body, left_out)


def sampling(recording: Recording) -> Element | None:
    """Return how the run was sampled, and which figures are lower bounds."""
    totals = recording.meta.totals
    lines: list[str] = []
    if totals is not None:
        try:
            lines = str(record_of(totals)).splitlines()  # type: ignore[arg-type] # what is not there raises
        except (AttributeError, KeyError, TypeError, ValueError):
            lines = []  # of a stranger's file
    meta = recording.meta
    interval = '' if meta.interval is None else f' every {meta.interval:g} s'
    lines.append(f'Recorded{interval} by {or_unknown(meta.program)}, Python {or_unknown(meta.python)}.')
    items = [element('li', line) for line in lines]
    items += [element('li', f'{message.level}: {message.text}') for message in recording.messages[:_MOST_MESSAGES]]
    return element('ul', *items)


def sampling_of_all(recordings: Sequence[Recording], names: Sequence[str]) -> Element:
    """Return :func:`sampling` of each recording, with what the marks in the tables mean."""
    parts = [
        part
        for recording, name in zip(recordings, names, strict=True)
        for part in (element('h3', name) if len(names) > 1 else None, sampling(recording))
    ]
    hints = (
        '~ is an estimate from the samples around a region, ≥ a lower and ≤ an upper bound.',
        'Figures have also what is only known at the end, such as CPU time of processes that no sample saw.',
        'The peak of RAM may be above all points of its chart: the kernel knows of peaks between two samples.',
    )
    marks = [element('p', hint, class_='hint') for hint in hints]
    return element('section', folded('How it was sampled', *parts, *marks))


def _alternating(first: Sequence[str], second: Sequence[str]) -> Iterator[str]:
    for one, other in zip_longest(first, second, fillvalue=''):
        yield one
        yield other
