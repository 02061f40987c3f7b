"""``gpu-tracker merge``: one report of all ranks of a job."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpu_tracker.cli import options, output
from gpu_tracker.errors import RecordingError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gpu_tracker.jobs.job_report import JobReport

TEXT = """
Makes one report of all ranks of a job that ran with gpu-tracker --job=FOLDER: the use
of each rank and node, the slowest rank, and ranks that were killed or never began.
While the job runs, the report covers what has been written so far.

Usage:
  gpu-tracker merge [options] <folder>...

Options:
  -f --format=<format>  Print the report as text, json or summary (only the
                        totals). With parquet, write a dataset of all samples
                        for DuckDB, Polars, Dask and Spark, in folders named
                        job=... and rank=... [default: text]
  --json                The same as --format=json.
  -o --output=<path>    Write to this file instead of standard output. For
                        parquet, give the path of a new folder.
  --recordings          Read all recordings of the job. By default, gpu-tracker
                        reads no recordings of a job with more than 2,000,
                        because each recording takes a few milliseconds.
  --no-recordings       Read no recordings, which is faster. The report then has
                        no regions. For the RAM of several ranks together, the
                        report has only a lower and an upper bound.
  --no-advice           Print no advice for the next job.
  -h --help             Print this text.
  -v --version          Print the version.

Several folders make one report, for example those of an array's tasks.
gpu-tracker report <folder> writes the report as an HTML page.
"""


def run(values: options.Values) -> int:
    """Write the report that ``values`` ask for, and return the exit code."""
    given = values['<folder>']
    folders = list(given) if isinstance(given, list) else []
    name = options.chosen_format(values, (*options.FORMATS, 'parquet'))
    path = options.output_path(values)
    if name == 'parquet':
        if path is None:
            raise options.UsageError('-f parquet needs --output=FOLDER for the dataset')
        return _write_dataset(folders, path)
    if values['--recordings'] and values['--no-recordings']:
        raise options.UsageError('--recordings and --no-recordings do not go together')
    wanted = True if values['--recordings'] else False if values['--no-recordings'] else None
    return write(folders, name, path, with_recordings=wanted, with_advice=not values['--no-advice'])


def write(
    folders: Sequence[str],
    format_name: str,
    path: str | None,
    *,
    with_recordings: bool | None = None,
    with_advice: bool = True,
) -> int:
    """Write the report of a job, and return the exit code.

    :param path: The file; None: standard output.
    :param with_advice: Add the advice for the next job.
    :param with_recordings: See :func:`gpu_tracker.load_job`.
    """
    from gpu_tracker.advice.jobs import advised  # noqa: PLC0415 - help does without
    from gpu_tracker.jobs.loading import load_job  # noqa: PLC0415 - as above

    destination = output.Destination(path)
    destination.check(path)
    try:
        report = load_job(folders, with_recordings=with_recordings)
    except RecordingError:
        destination.forget()
        raise
    text = _text(advised(report) if with_advice else report, format_name)
    if path is None:
        return output.print_text(f'{text}\n')
    return 0 if destination.write(text) else output.FAILURE


def _text(report: JobReport, format_name: str) -> str:
    from gpu_tracker.jobs import job_text  # noqa: PLC0415 - as above

    if format_name == 'json':
        import json  # noqa: PLC0415 - as above

        return json.dumps(report.to_json(), indent=1)
    return job_text.as_summary(report) if format_name == 'summary' else job_text.as_text(report)


def _write_dataset(folders: Sequence[str], path: str) -> int:
    from gpu_tracker.jobs.dataset import write_dataset  # noqa: PLC0415 - as above
    from gpu_tracker.system.terminal_text import printable  # noqa: PLC0415 - as above

    written, left_out = write_dataset(folders, path)
    for problem in left_out:
        output.complain(printable(problem))
    output.say(f'{written} recording{"" if written == 1 else "s"} written to {printable(path)}')
    return 0
