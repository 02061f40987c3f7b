"""``gpu-tracker report``: recordings as one page for a browser."""

from __future__ import annotations

import os
from contextlib import ExitStack
from typing import TYPE_CHECKING

from gpu_tracker.cli import options, output
from gpu_tracker.errors import ParameterError, RecordingError

TEXT = """
Writes a page about a recording: its figures, charts over time, regions and processes.
The page is one file that opens in any browser, also offline. Two or more recordings
are shown side by side with their differences. A job's folder is shown with its ranks.

Usage:
  gpu-tracker report [options] [<file>...]

Options:
  -o --output=<file>   Write the page to this file, whose name ends in .html.
                       With -, write to standard output. Default: the path of
                       the first recording, with the ending .html. The default
                       for kept run 17 is run-17.html in the current folder.
  --from=<seconds>     Start the charts this number of seconds after the first
                       sample. Charts of a shorter part of the run show more
                       detail.
  --to=<seconds>       End the charts this number of seconds after the first
                       sample.
  --salvage            Read damaged or truncated files as far as possible.
  -h --help            Print this text.
  -v --version         Print the version.

In the page, drag over a chart to zoom, and double-click to see all again. With the
keyboard: arrows move the cursor, + and - zoom, 0 shows all.
<file> is a recording, or the number or ID of a run: see gpu-tracker runs.
Default: last, the run that ended last.
"""

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gpu_tracker.recording.reading.recording import Recording

_BEGINNING = 4096
"""Characters at the beginning of a page or picture that contain its generator."""
_ENDINGS = ('.html', '.htm', '')


def run(values: options.Values) -> int:
    """Write the page that ``values`` ask for, and return the exit code."""
    given = values['<file>']
    files = list(given) if isinstance(given, list) and given else [options.LAST_RUN]
    start, stop = part_of(values)
    path = None if values['--output'] is None else os.path.expanduser(str(values['--output']))
    if os.path.splitext(path or '')[1].lower() not in _ENDINGS:
        advice = 'gpu-tracker plot draws a recording as .png, .svg or .pdf'
        raise ParameterError('--output', path, 'a path that ends in .html, or - for standard output', advice)
    if len(files) == 1 and os.path.isdir(files[0]):
        return _write_job(files[0], path)
    return _write(files, path, start, stop, salvage=bool(values['--salvage']))


def part_of(values: options.Values) -> tuple[float | None, float | None]:
    """Return the seconds of --from and --to; None if not given.

    :raises ParameterError: if they are no seconds that a run can have, or in the wrong order.
    """
    start, stop = (_seconds(option, values[option]) for option in ('--from', '--to'))
    if start is not None and stop is not None and stop <= start:
        raise ParameterError('--to', values['--to'], f'more than --from, which is {start:g}')
    return start, stop


def _seconds(option: str, given: object) -> float | None:
    if given is None:
        return None
    accepted = 'a number of seconds from the first sample'
    seconds = options.time(option, str(given), accepted)
    if not 0 <= seconds < float('inf'):
        raise ParameterError(option, given, accepted)
    return seconds


def check_begin(recordings: Sequence[Recording], start: float | None) -> None:
    """Raise ParameterError if no recording has samples from ``start`` on."""
    end = max(recording.duration or 0.0 for recording in recordings)
    if start is not None and start >= end:
        raise ParameterError('--from', f'{start:g}', f'less than the duration of the recording, {end:g} s')


def _write(files: list[str], path: str | None, start: float | None, stop: float | None, *, salvage: bool) -> int:
    from gpu_tracker.cli.recordings import file_of, opened  # noqa: PLC0415 - help does without
    from gpu_tracker.recording.export import check_destination  # noqa: PLC0415 - help does without
    from gpu_tracker.views.report_page.page import GENERATOR, html_page  # noqa: PLC0415 - as above

    with ExitStack() as stack:
        recordings = [stack.enter_context(opened(file, None, salvage=salvage)) for file in files]
        path = path_beside(stem_of(file_of(files[0])), '.html', GENERATOR) if path is None else path
        if path != '-':
            for recording in recordings:
                check_destination(recording, path)
        check_begin(recordings, start)
        return _deliver(html_page(recordings, start=start, stop=stop), path)


def _write_job(folder: str, path: str | None) -> int:
    from gpu_tracker.advice.jobs import advised  # noqa: PLC0415 - as above
    from gpu_tracker.jobs.loading import load_job  # noqa: PLC0415 - as above
    from gpu_tracker.views.job_page import job_page  # noqa: PLC0415 - as above
    from gpu_tracker.views.report_page.page import GENERATOR  # noqa: PLC0415 - as above

    report = advised(load_job(folder))
    path = path_beside(folder.rstrip('/') or 'job', '.html', GENERATOR) if path is None else path
    return _deliver(job_page(report), path)


def stem_of(path: str) -> str:
    """Return the name of a recording's page or picture, without ending."""
    from gpu_tracker.running import numbered_runs  # noqa: PLC0415 - help does without

    stem = os.path.splitext(path)[0]
    return f'run-{os.path.basename(stem)}' if path in numbered_runs.recordings() else stem


def path_beside(stem: str, ending: str, mark: str) -> str:
    """Return the path of the page or picture if none was given.

    :param mark: What is at the beginning of files of this kind that gpu-tracker has written.
    :raises RecordingError: Another file is there.
    """
    path = f'{stem}{ending}'
    try:
        with open(path, encoding='utf-8', errors='replace') as file:
            is_ours = mark in file.read(_BEGINNING)
    except FileNotFoundError:
        return path
    except OSError as error:
        problem = f'cannot write {path}: {output.reason(error)}'
        raise RecordingError(f'{problem}. Choose another file with --output') from error
    if not is_ours:
        raise RecordingError(f'{path} exists, but is not a file of gpu-tracker. Choose another file with --output')
    return path


def _deliver(page: str, path: str) -> int:
    """Write the page, to standard output for ``-``; return the exit code."""
    from gpu_tracker.system.terminal_text import printable  # noqa: PLC0415 - as above

    if path == '-':
        return output.print_text(page)
    write(path, page.encode())
    output.say(f'The report is in {printable(path)}')
    return 0


def write(path: str, content: bytes) -> None:
    """Write a page or a picture.

    :raises RecordingError: if it cannot be written; a file that was there stays as it was.
    """
    from gpu_tracker.system import files  # noqa: PLC0415 - as above

    try:
        files.write_pieces(path, [content])
    except OSError as error:
        raise RecordingError(f'cannot write {path}: {output.reason(error)}') from error
