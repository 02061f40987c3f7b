"""The report of a job as text: the totals, then nodes, ranks and regions as tables, the most telling lines of many."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from gpu_tracker.figures import AT_LEAST, LARGEST, figure, of_job
from gpu_tracker.jobs.records import ENDED, FAILED, KILLED, LOST, RUNNING
from gpu_tracker.limits import REASONS, ended_beyond, ended_by
from gpu_tracker.recording.writing.rank_files import UNMEASURED
from gpu_tracker.system.terminal_text import padded, printable, shortened, width_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from gpu_tracker.jobs.job_report import JobReport, NodeReport, RankReport
    from gpu_tracker.recording.reading.model import Bounded

_WIDTH = 12
_MOST_ROWS = 16
_MOST_OF_A_KIND = 4
_LEAST_PERCENT = 0.5
_LONGEST_NAME = 60
_HOUR = 3600
_TENTH_OF_HOUR = 360
_CLOSE = 1.05
"""By what an upper bound may be above a value that is shown without it."""
_IN_WORDS = {
    ENDED: 'ended',
    FAILED: 'failed',
    KILLED: 'killed',
    LOST: 'lost',
    RUNNING: 'still running',
    UNMEASURED: 'not measured',
}
_MOST_GPUS = 4
FIGURES = {
    'seconds': ('time', 'seconds'),
    'cpu_seconds': ('CPU time', 'seconds'),
    'max_ram': ('peak RAM', 'bytes'),
    'max_gpu_ram': ('peak GPU RAM', 'bytes'),
}
"""What the figures of an imbalance are called, and their units."""
_READ, _WRITTEN = 'io.combined.read', 'io.combined.written'


def as_text(report: JobReport) -> str:
    """Return the whole report as lines."""
    blocks = [as_summary(report), *filter(None, map('\n'.join, (_nodes(report), _ranks(report), _regions(report))))]
    return '\n\n'.join(blocks)


def as_summary(report: JobReport) -> str:
    """Return the figures of the whole job alone."""
    return '\n'.join(f'{title:<{_WIDTH - 1}} {text}' for title, text in lines_of(report))


def lines_of(report: JobReport) -> Iterator[tuple[str, str]]:
    """Yield each line as its title, which is empty where it goes on with the line before, and its text."""
    yield 'Job', _title(report)
    yield 'Ranks', _counts(report)
    yield from _ends(report)
    yield 'Time', _time(report)
    yield (
        'CPU',
        used_of_allotted(report.cpu_seconds, report.cpu_seconds_allotted, 'core', at_least=report.is_lower_bound),
    )
    if report.gpu_seconds or report.gpu_seconds_allotted:
        yield (
            'GPU',
            used_of_allotted(report.gpu_seconds, report.gpu_seconds_allotted, 'GPU', at_least=report.is_lower_bound),
        )
    yield from gpu_lines(report)
    yield from _ram(report)
    for first, imbalance in enumerate(report.imbalance):
        name, unit = FIGURES[imbalance.figure]
        step = f' of step {imbalance.step}' if len({one.step for one in report.imbalance}) > 1 else ''
        most, mean = figure(imbalance.max, unit), figure(imbalance.mean, unit)
        text = f'{name}{step}: {named(imbalance.rank)} has {most}, {imbalance.ratio:.2f} times the mean of {mean}'
        yield '' if first else 'Imbalance', text
    if report.read is not None or report.written is not None:
        yield 'Storage', f'{of(report, _READ)} read, {of(report, _WRITTEN)} written'
    yield from ((title, f'{value} {note}') for title, value, note in other_figures(report))
    if report.gpu_joules is not None or report.cpu_package_joules is not None:
        gpus, packages = figure(report.gpu_joules, 'joules'), figure(report.cpu_package_joules, 'joules')
        yield 'Energy', f'GPUs in use {gpus}, CPU packages {packages}'
    yield from (('' if number else 'Advice', printable(one.text)) for number, one in enumerate(report.advice))
    yield from _problems(report)


def gpu_lines(report: JobReport) -> Iterator[tuple[str, str]]:
    """Yield a line for each of the fullest GPUs that ranks used: its name, and what they had of it."""
    for gpu in report.gpus[:_MOST_GPUS]:
        ranks = named(gpu.ranks[0]) if len(gpu.ranks) == 1 else f'ranks {listed(gpu.ranks)}'
        busy = figure(gpu.mean_percent, 'percent')
        place = f' on {printable(gpu.node)}' if len(report.nodes) > 1 else ''
        yield gpu.label, f'{bounded(gpu.max_ram)} of {figure(gpu.capacity, "bytes")}, {busy} busy{place}; {ranks}'
    more = len(report.gpus) - _MOST_GPUS
    if more > 0:
        yield '', f'and {more:,} more GPUs: -f json has them'


def other_figures(report: JobReport) -> Iterator[tuple[str, str, str]]:
    """Yield the labelled figures without a line of their own: label, value, and what it is of."""
    for path, row in of_job().items():
        if row.label and report.figures.get(path) and path not in {_READ, _WRITTEN}:
            note = 'in the largest rank' if row.of_ranks == LARGEST else 'of all ranks'
            yield row.short or row.label, of(report, path), note


def of(report: JobReport | RankReport, path: str) -> str:
    """Return a figure of a job or a rank, marked if it may be too low, or ``N/A``."""
    return figure(report.figures.get(path), of_job()[path].unit, at_least=path in report.lower_bounds)


def rank_columns(ranks: Iterable[RankReport]) -> list[tuple[str, list[str]]]:
    """Return the columns of labelled figures: titles and cells."""
    shown = list(ranks)
    return [
        (row.short or row.label, [of(rank, path) for rank in shown])
        for path, row in of_job().items()
        if row.label and any(path in rank.figures for rank in shown)
    ]


def _ends(report: JobReport) -> Iterator[tuple[str, str]]:
    """Yield the lines of ranks that have ended badly or not at all."""
    missing = 'not begun yet' if report.is_running else 'never began'
    for name, labels in ((missing, report.never_started), ('started again', report.restarted)):
        if labels:
            yield '', f'{name}: {listed(labels)}'
    last: dict[str, int | None] = {}
    for rank in report.ranks:
        last[rank.label] = max(
            last.get(rank.label), rank.attempt, key=lambda attempt: -1 if attempt is None else attempt
        )
    for state in (KILLED, FAILED, LOST, UNMEASURED):
        ranks = [_with_end(one) for one in report.ranks if one.state == state and one.attempt == last[one.label]]
        if ranks:
            yield '', f'{_IN_WORDS[state]}: {listed(ranks)}'
    yield from at_limits(report)
    for first, sentence in enumerate(killed_in_groups(report)):
        yield '' if first else 'Killed', sentence


def at_limits(report: JobReport) -> Iterator[tuple[str, str]]:
    """Yield a line for each limit that has ended ranks, which names these."""
    for reason in REASONS:
        ranks = dict.fromkeys(rank.label for rank in report.ranks if rank.termination_reason == reason)
        if ranks:
            yield '', f'{ended_by(reason)}: {listed(ranks)}'


def killed_in_groups(report: JobReport) -> Iterator[str]:
    """Yield a sentence for each control group in which processes were killed for lack of memory, the first of many."""
    for found in report.oom_kills[:_MOST_ROWS]:
        killed = '1 process' if found.kills == 1 else f'{found.kills:,} processes'
        verb = 'was' if found.kills == 1 else 'were'
        ranks = named(found.ranks[0]) if len(found.ranks) == 1 else f'ranks {listed(found.ranks)}'
        place = f'node{"" if len(found.nodes) == 1 else "s"} {listed(found.nodes)}'
        yield printable(f'{killed} of the control group of {ranks} on {place} {verb} killed for lack of memory.')
    if len(report.oom_kills) > _MOST_ROWS:
        yield f'{len(report.oom_kills) - _MOST_ROWS:,} more groups in which processes were killed: -f json has them.'


def _problems(report: JobReport) -> Iterator[tuple[str, str]]:
    more = len(report.problems) - _MOST_ROWS
    last = [f'{more:,} more problems: -f json has them'] if more > 0 else []
    for first, problem in enumerate([*report.problems[:_MOST_ROWS], *last]):
        yield '' if first else 'Beware', printable(problem)


def _title(report: JobReport) -> str:
    jobs = ', '.join(report.jobs) or 'without an ID'
    launchers = f' ({", ".join(report.launchers)})' if report.launchers else ''
    return printable(f'{jobs}{launchers}{", still running" if report.is_running else ""}')


def _counts(report: JobReport) -> str:
    of = '' if report.ranks_expected is None else f' of {report.ranks_expected:,}'
    states = ', '.join(f'{count:,} {_IN_WORDS[state]}' for state, count in report.states.items() if count)
    nodes = len(report.nodes)
    return f'{report.ranks_started:,}{of} on {nodes:,} node{"" if nodes == 1 else "s"}: {states}'


def _time(report: JobReport) -> str:
    if report.started is None:
        return 'N/A'
    date = time.strftime('%Y-%m-%d %H:%M:%S UTC', time.gmtime(report.started))
    return f'{figure(report.seconds, "seconds")} from {date}'


def used_of_allotted(used: float | None, allotted: float | None, unit: str, *, at_least: bool) -> str:
    """Return how many core-hours or GPU-hours were used of those that were there."""
    if used is None:
        return 'N/A'
    seconds, name = (1, 'seconds') if used < _TENTH_OF_HOUR else (_HOUR, 'hours')
    text = f'{"at least " if at_least else ""}{used / seconds:.3g} {unit}-{name}'
    if not allotted:
        return text
    return f'{text} of {allotted / seconds:.3g} allotted, {_percent(used / allotted)}'


def _ram(report: JobReport) -> Iterator[tuple[str, str]]:
    if report.max_ram_of_rank is None or report.max_ram_of_node is None:
        yield 'Peak RAM', 'N/A'
        return
    yield 'Peak RAM', f'{bounded(report.max_ram_of_node)} on the largest node'
    yield '', f'{of_rank(report.max_ram_of_rank)} in the largest rank'
    if report.asked_ram_of_node is not None:
        used = report.max_ram_of_node
        most = used.value if used.upper is None else used.upper
        at_most = '' if used.upper is None or used.upper == used.value else 'at most '
        share = f', {at_most}{100 * most / report.asked_ram_of_node:.0f} % of it' if most is not None else ''
        wanted = figure(report.asked_ram_of_node, 'bytes')
        yield 'Request', f'asked for {wanted} a node; the largest used {bounded(used)}{share}'


def bounded(ram: Bounded) -> str:
    """Return RAM as it is known: the value, marked if it may be too low, or its bounds."""
    if ram.value is not None:
        seen = figure(ram.value, 'bytes')
        if ram.upper is None:
            return f'{AT_LEAST}{seen}'
        return seen if ram.upper <= _CLOSE * ram.value else f'{seen} seen, at most {figure(ram.upper, "bytes")}'
    if ram.upper is None:
        return f'at least {figure(ram.lower, "bytes")}' if ram.lower is not None else 'N/A'
    if ram.lower is None or ram.lower == ram.upper:
        return f'at most {figure(ram.upper, "bytes")}'
    return f'{figure(ram.lower, "bytes")} to {figure(ram.upper, "bytes")}'


def of_rank(ram: Bounded) -> str:
    """Return the RAM of one rank, whose value has the kernel's own marks in it."""
    return bounded(ram) if ram.value is None or ram.upper is None else figure(ram.value, 'bytes')


def named(label: str) -> str:
    """Return a label as it stands in a sentence."""
    return printable(label if ' ' in label else f'rank {label}')


def listed(labels: Iterable[str]) -> str:
    """Return labels one behind the other, the first of many; those that follow each other as a range."""
    words: list[str] = []
    for label in labels:
        first, _, last = words[-1].partition('-') if words else ('', '', '')
        if label.isdecimal() and first.isdecimal() and int(last or first) == int(label) - 1:
            words[-1] = f'{first}-{label}'
        else:
            words.append(label)
    more = len(words) - _MOST_ROWS
    return printable(', '.join(words[:_MOST_ROWS])) + (f' and {more:,} more' if more > 0 else '')


def _with_end(rank: RankReport) -> str:
    if rank.signal is not None:
        return f'{rank.label} ({rank.signal})'
    return f'{rank.label} (exit code {rank.exit_code})' if rank.exit_code else rank.label


def _nodes(report: JobReport) -> list[str]:
    chosen, title = _chosen_nodes(report.nodes)
    titles = ('Node', 'Ranks', 'Peak RAM', 'asked', 'CPU time', 'of allotted', 'GPU time', 'RAM of all', 'of')
    uses_gpus = any(node.gpu_seconds for node in report.nodes)
    rows = [
        (
            node.node,
            f'{node.ranks:,}',
            bounded(node.max_ram),
            '' if node.asked_ram is None else figure(node.asked_ram, 'bytes'),
            figure(node.cpu_seconds, 'seconds'),
            share(node.cpu_seconds, node.cpu_seconds_allotted),
            figure(node.gpu_seconds, 'seconds') if uses_gpus else '',
            figure(node.system_max_ram, 'bytes'),
            figure(node.system_ram_capacity, 'bytes'),
        )
        for node in chosen
    ]
    return [title, *_table(titles, rows)] if rows else []


def _percent(share_of_all: float) -> str:
    percent = 100 * share_of_all
    return f'{percent:.0f} %' if percent == 0 or percent >= _LEAST_PERCENT else 'less than 1 %'


def share(used: float | None, allotted: float | None) -> str:
    """Return a share in percent, or ``N/A``; nothing if it is unknown what was allotted."""
    if not allotted:
        return ''
    return 'N/A' if used is None else _percent(used / allotted)


def _chosen_nodes(nodes: Sequence[NodeReport]) -> tuple[list[NodeReport], str]:
    if len(nodes) <= _MOST_ROWS:
        return list(nodes), 'Nodes'
    largest = sorted(nodes, key=lambda node: -(node.max_ram.value or node.max_ram.lower or 0))[:_MOST_ROWS]
    return largest, f'Nodes: the {_MOST_ROWS} with the most RAM of {len(nodes):,}; -f json has all'


def _ranks(report: JobReport) -> list[str]:
    chosen, title = chosen_ranks(report)
    columns = rank_columns(chosen)
    others = [title for title, _ in columns]
    titles = ['Rank', 'Attempt', 'Node', 'Time', 'CPU time', 'Cores', 'Peak RAM', *others, 'End']
    has_attempts = any(rank.attempt for rank in report.ranks)
    rows = [
        (
            rank.label,
            str(rank.attempt) if has_attempts and rank.attempt is not None else '',
            rank.node or '',
            figure(rank.seconds, 'seconds'),
            figure(rank.cpu_seconds, 'seconds'),
            'N/A' if rank.cpu_seconds is None or not rank.seconds else f'{rank.cpu_seconds / rank.seconds:.2f}',
            of_rank(rank.max_ram),
            *(cells[place] for _, cells in columns),
            end_of(rank),
        )
        for place, rank in enumerate(chosen)
    ]
    return [title, *_table(titles, rows)] if rows else []


def chosen_ranks(report: JobReport, most: int = _MOST_ROWS) -> tuple[list[RankReport], str]:
    """Return the ranks that are to be shown, and their title: all, or those that stand out of many."""
    if len(report.ranks) <= most:
        return list(report.ranks), 'Ranks'
    found: dict[int, RankReport] = {}

    def take(ranks: Iterable[RankReport]) -> None:
        for rank in list(ranks)[: max(1, most // _MOST_OF_A_KIND)]:
            found[id(rank)] = rank

    take(rank for rank in report.ranks if rank.termination_reason is not None)
    take(rank for rank in report.ranks if rank.state not in {ENDED, RUNNING})
    take(sorted(report.ranks, key=lambda rank: -rank.seconds))
    take(sorted(report.ranks, key=lambda rank: -(rank.max_ram.value or 0)))
    take(sorted(report.ranks, key=lambda rank: -(rank.cpu_seconds or 0)))
    shown = [rank for rank in report.ranks if id(rank) in found]
    title = f'Ranks that stand out of {len(report.ranks):,}: ends, slowest, largest, busiest; -f json has all'
    return shown, title


def end_of(rank: RankReport) -> str:
    """Return how a rank has ended, in a few words."""
    if rank.termination_reason is not None:
        end = f'exit code {rank.exit_code}' if rank.state == ENDED else _own_end(rank)
        return f'{end}, {ended_by(rank.termination_reason)}'
    end = _own_end(rank)
    return end if rank.exceeded_limits is None else f'{end}, {ended_beyond(rank.exceeded_limits)}'


def _own_end(rank: RankReport) -> str:
    if rank.signal is not None:
        return f'killed by {rank.signal}'
    if rank.state == FAILED:
        return f'exit code {rank.exit_code}'
    if rank.state == LOST:
        return f'not seen; last report {time.strftime("%H:%M:%S UTC", time.gmtime(rank.updated))}'
    return {ENDED: 'well' if rank.exit_code == 0 else 'tracking stopped'}.get(rank.state, _IN_WORDS[rank.state])


def _regions(report: JobReport) -> list[str]:
    titles = ('Region', 'Ranks', 'Calls', 'Slowest', 'its time', 'Mean', 'Waiting')
    rows = [
        (
            shortened(f'{"":{2 * (len(region.path) - 1)}}{printable(region.path[-1])}', _LONGEST_NAME),
            f'{region.ranks:,}',
            f'{region.calls:,}',
            region.slowest_rank,
            figure(region.max_seconds, 'seconds'),
            figure(region.mean_seconds, 'seconds'),
            waiting(region.waiting_share, is_by_call=region.is_by_call),
        )
        for region in report.regions[: 4 * _MOST_ROWS]
    ]
    more = len(report.regions) - len(rows)
    last = [f'{more:,} more regions are left out: -f json has them'] if more > 0 else []
    return ['Regions', *_table(titles, rows), *last] if rows else []


def waiting(share_of_time: float | None, *, is_by_call: bool) -> str:
    """Return for which share of the time ranks would wait for the slowest; ``~`` where calls could not be compared."""
    if share_of_time is None:
        return ''
    return f'{"" if is_by_call else "~"}{100 * share_of_time:.0f} %'


def _table(titles: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """Yield the titles and the rows, without columns that have nothing; all but the first column to the right."""
    used = [place for place in range(len(titles)) if any(row[place] for row in rows)]
    cells = [[printable(row[place]) for place in used] for row in (titles, *rows)]
    widths = [max(width_of(row[place]) for row in cells) for place in range(len(used))]
    for row in cells:
        parts = [
            padded(text, width, to_the_right=bool(place))
            for place, (text, width) in enumerate(zip(row, widths, strict=True))
        ]
        yield f'  {"  ".join(parts)}'.rstrip()
