"""The report of a job as a page for a browser, and as tables for notebooks."""

from __future__ import annotations

import time
from importlib import resources
from typing import TYPE_CHECKING

from gpu_tracker.figures import figure
from gpu_tracker.jobs import job_text
from gpu_tracker.jobs.records import ENDED, RUNNING
from gpu_tracker.views import html
from gpu_tracker.views.report_page import page, sections
from gpu_tracker.views.report_page.elements import bar, definitions, element, level, table

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from xml.etree.ElementTree import Element

    from gpu_tracker.jobs.job_report import JobReport, RankReport

_MOST_ROWS = 400


def job_page(report: JobReport) -> str:
    """Return a page that needs nothing else: no script, and no other file."""
    folder = resources.files(page.__package__) / 'static'
    style = (folder / 'report.css').read_text(encoding='utf-8')
    advice = sections.advice_list([one.text for one in report.advice])
    parts = [
        _heading(report),
        advice,
        _figures(report),
        _imbalance(report),
        _nodes(report),
        _ranks(report),
        _regions(report),
    ]
    return page.document(_title(report), style, parts)


def job_html(report: JobReport) -> str:
    """Return the totals and the ranks as tables without style sheet and script, for notebooks."""
    lines = [
        [html.cell(title, is_number=False), html.cell(text, is_number=False)]
        for title, text in job_text.lines_of(report)
    ]
    ranks, title = job_text.chosen_ranks(report, html.MOST_ROWS)
    titles, cells = _rank_table(ranks)
    heads = [html.Title(head, is_number=place > 1) for place, head in enumerate(titles)]
    rows = ([html.cell(text, is_number=place > 1) for place, text in enumerate(row)] for row in cells)
    return ''.join(
        [
            html.table([html.Title('', is_number=False), html.Title(_title(report), is_number=False)], lines),
            html.paragraph(title),
            html.table(heads, rows),
        ]
    )


def _title(report: JobReport) -> str:
    return f'Job {", ".join(report.jobs)}' if report.jobs else 'A job without an ID'


def _heading(report: JobReport) -> Element:
    known = dict(job_text.lines_of(report))
    date = 'N/A' if report.started is None else time.strftime('%Y-%m-%d %H:%M:%S UTC', time.gmtime(report.started))
    pairs = [
        ('Started by', ', '.join(report.launchers) or 'no launcher'),
        ('Ranks', known['Ranks']),
        ('Started', date),
    ]
    notes = []
    if report.is_running:
        notes.append('The job is still running: figures are those so far.')
    for name, labels in (('never began', report.never_started), ('started again', report.restarted)):
        if labels:
            notes.append(f'Ranks that {"were " if name == "started again" else ""}{name}: {job_text.listed(labels)}.')
    notes += [f'{text[0].upper()}{text[1:]}.' for _, text in job_text.at_limits(report)]
    texts = [*notes, *job_text.killed_in_groups(report), *report.problems]
    return element(
        'header',
        element('h1', _title(report)),
        definitions('facts', pairs),
        *(element('p', text, class_='problem') for text in texts),
    )


def _figures(report: JobReport) -> Element:
    return element('section', element('h2', 'Figures'), definitions('figures', _tiles(report)))


def _tiles(report: JobReport) -> Iterator[tuple[str, str, str]]:
    yield 'Time', figure(report.seconds, 'seconds'), 'from the first rank to the last'
    text = job_text.used_of_allotted(
        report.cpu_seconds, report.cpu_seconds_allotted, 'core', at_least=report.is_lower_bound
    )
    value, _, allotted = text.partition(' of ')
    yield 'CPU used', value, f'of {allotted}' if allotted else 'of all ranks'
    if report.gpu_seconds or report.gpu_seconds_allotted:
        text = job_text.used_of_allotted(report.gpu_seconds, report.gpu_seconds_allotted, 'GPU', at_least=False)
        value, _, allotted = text.partition(' of ')
        yield 'GPUs busy', value, f'of {allotted}' if allotted else 'those that the ranks used'
    for title, text in job_text.gpu_lines(report):
        value, _, note = text.partition(' of ')
        yield title or 'More GPUs', value, f'of {note}' if note else ''
    if report.max_ram_of_node is not None and report.max_ram_of_rank is not None:
        asked = report.asked_ram_of_node
        note = '' if asked is None else f'asked for {figure(asked, "bytes")} a node'
        yield 'Peak RAM of a node', job_text.bounded(report.max_ram_of_node), note or 'of its ranks at one moment'
        yield 'Peak RAM of a rank', job_text.of_rank(report.max_ram_of_rank), 'the largest one'
    if report.read is not None:
        yield 'Read', job_text.of(report, 'io.combined.read'), 'from storage'
        yield 'Written', job_text.of(report, 'io.combined.written'), 'to storage'
    yield from job_text.other_figures(report)
    if report.gpu_joules is not None:
        yield 'Energy of GPUs', figure(report.gpu_joules, 'joules'), 'of those that the ranks used'
    if report.cpu_package_joules is not None:
        yield 'Energy of CPUs', figure(report.cpu_package_joules, 'joules'), 'of whole packages'


def _imbalance(report: JobReport) -> Element | None:
    if not report.imbalance:
        return None
    has_steps = len({(one.job, one.step) for one in report.imbalance}) > 1
    rows = [
        [
            job_text.FIGURES[one.figure][0] + (f' of step {one.step}' if has_steps else ''),
            job_text.named(one.rank),
            figure(one.max, job_text.FIGURES[one.figure][1]),
            figure(one.mean, job_text.FIGURES[one.figure][1]),
            f'{one.ratio:.2f}',
        ]
        for one in report.imbalance
    ]
    heads = ['Figure', 'Most has', 'Most', 'Mean', 'Most / mean']
    return element('section', element('h2', 'Imbalance'), table(heads, rows, texts=(0, 1)))


def _nodes(report: JobReport) -> Element | None:
    shown = sorted(report.nodes, key=lambda node: -(node.max_ram.value or node.max_ram.lower or 0))[:_MOST_ROWS]
    rows = [
        [
            node.node,
            f'{node.ranks:,}',
            job_text.bounded(node.max_ram),
            '' if node.asked_ram is None else figure(node.asked_ram, 'bytes'),
            figure(node.cpu_seconds, 'seconds'),
            job_text.share(node.cpu_seconds, node.cpu_seconds_allotted),
            figure(node.gpu_seconds, 'seconds') if node.gpu_seconds else '',
            f'{figure(node.system_max_ram, "bytes")} of {figure(node.system_ram_capacity, "bytes")}',
        ]
        for node in shown
    ]
    heads = ['Node', 'Ranks', 'Peak RAM', 'Asked for', 'CPU time', 'of allotted', 'GPUs busy', 'RAM of everybody']
    return _section('Nodes', heads, rows, len(report.nodes) - len(shown))


def _rank_table(ranks: Sequence[RankReport]) -> tuple[list[str], list[list[str]]]:
    """Return the titles of the columns and the rows."""
    columns = job_text.rank_columns(ranks)
    titles = ['Rank', 'Node', 'Time', 'CPU time', 'Peak RAM', *(title for title, _ in columns), 'End']
    rows = [
        [
            f'{rank.label} (attempt {rank.attempt})' if rank.attempt else rank.label,
            rank.node or '',
            figure(rank.seconds, 'seconds'),
            figure(rank.cpu_seconds, 'seconds'),
            job_text.of_rank(rank.max_ram),
            *(cells[place] for _, cells in columns),
            job_text.end_of(rank),
        ]
        for place, rank in enumerate(ranks)
    ]
    return titles, rows


def _ranks(report: JobReport) -> Element:
    ranks, title = job_text.chosen_ranks(report, _MOST_ROWS)
    start, length = report.started or 0.0, report.seconds or 1.0
    rows: list[list[Element | str]] = []
    titles, cells = _rank_table(ranks)
    for rank, (label, *others) in zip(ranks, cells, strict=True):
        begin, end = (rank.started - start) / length, (rank.started + rank.seconds - start) / length
        is_good = rank.state in {ENDED, RUNNING} and rank.termination_reason is None
        said = f'{figure(rank.seconds, "seconds")}, {job_text.end_of(rank)}'
        rows.append([label, bar(begin, end, said, None if is_good else 'bad'), *others])
    heads = [titles[0], 'Ran', *titles[1:]]
    return element('section', element('h2', title), table(heads, rows, (0, 1, 2, len(heads) - 1), class_='ranks'))


def _regions(report: JobReport) -> Element | None:
    shown = report.regions[:_MOST_ROWS]
    rows: list[list[Element | str]] = [
        [
            level(region.path[-1], len(region.path) - 1),
            f'{region.ranks:,}',
            f'{region.calls:,}',
            region.slowest_rank,
            figure(region.max_seconds, 'seconds'),
            figure(region.mean_seconds, 'seconds'),
            job_text.waiting(region.waiting_share, is_by_call=region.is_by_call),
        ]
        for region in shown
    ]
    heads = ['Region', 'Ranks', 'Calls', 'Slowest rank', 'Its time', 'Mean', 'Waiting']
    found = _section('Regions', heads, rows, len(report.regions) - len(shown))
    if found is not None:
        hint = (
            'Waiting: for which part of the time ranks wait on average, where all wait for the slowest at the end of '
            'each call. ~: of the sums, since not all ranks have the same calls.'
        )
        found.append(element('p', hint, class_='hint'))
    return found


def _section(title: str, heads: Sequence[str], rows: Sequence[Sequence[Element | str]], more: int) -> Element | None:
    if not rows:
        return None
    left_out = (
        element('p', f'{more:,} more are left out: gpu-tracker merge -f json has them.', class_='hint')
        if more
        else None
    )
    return element('section', element('h2', title), table(heads, rows), left_out)
