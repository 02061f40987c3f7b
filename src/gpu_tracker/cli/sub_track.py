"""``gpu-tracker sub-track``: the commands of gpu-tracker 5 for code blocks."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING

from gpu_tracker.cli import config_files, options, output
from gpu_tracker.cli.options import UsageError
from gpu_tracker.cli.output import FAILURE, Destination
from gpu_tracker.errors import GpuTrackerError, ParameterError

if TYPE_CHECKING:
    from gpu_tracker.sub_tracker import ComparisonResults, SubTrackingResults

TEXT = """
Reports the use of each code block of a run, tracked by gpu-tracker 5 or this version,
and compares runs. New programs use regions: see `gpu-tracker show` and
`gpu-tracker compare`.

Usage:
  gpu-tracker sub-track combine --stf=<file> [--path=<path>]... [<path>...]
  gpu-tracker sub-track analyze --tf=<file> --stf=<file> [-o <file>] [-f <format> | --json]
  gpu-tracker sub-track compare [--map=<name=file>]... [--cconfig=<file>]
                                [--stat=<statistic>] [-o <file>] [-f <format> | --json]
                                [<name=file>...]

Commands:
  combine               Write the code blocks of several files to a new file.
  analyze               Report the use of the whole run and of each code block.
  compare               Compare the results of several runs, which analyze wrote with
                        `-f json -o FILE`.

Options:
  --tf=<file>           The tracking file of the whole run: .csv, .sqlite or a
                        recording.
  --stf=<file>          The file with the times of code blocks: .csv, .sqlite or a
                        recording. To make one file of several, use gpu-tracker
                        sub-track combine.
  -p --path=<path>      Combine this file. If the path is a folder, combine all
                        its files with the extension of the output file, such as
                        .csv. You can repeat this option.
  -m --map=<name=file>  Compare the run with this name. The file has the results
                        of the run. You can repeat this option.
  --stat=<statistic>    Compare this statistic: min, max, mean or std. Default:
                        mean.
  --cconfig=<file>      Read what to compare from this JSON file. Its key
                        "file_path_map" maps names of runs to files of results,
                        and the key "statistic" names the statistic. -m adds
                        files, and --stat overrides "statistic".
  -o --output=<file>    Write to this file instead of standard output.
  -f --format=<format>  Print the results as text or json. [default: text]
  --json                The same as --format=json.
  -h --help             Print this text.
  -v --version          Print the version.

Exit code 125: a file cannot be read or written, or has the wrong format.
"""

_FORMATS = ('text', 'json')


def run(values: options.Values) -> int:
    """Do what ``values`` ask for, and return the exit code."""
    try:
        if values['combine']:
            return _combine(values)
        return _analyze(values) if values['analyze'] else _compare(values)
    except OSError as error:
        if error.filename is None:
            raise
        raise GpuTrackerError(f'cannot read {os.fsdecode(error.filename)}: {output.reason(error)}') from error


def _combine(values: options.Values) -> int:
    from gpu_tracker.sub_tracker import SubTrackingAnalyzer  # noqa: PLC0415 - the help does without

    made = _path(values, '--stf')
    given = [*_texts(values, '--path'), *_texts(values, '<path>')]
    if not given:
        raise UsageError('-p is missing: name the files to combine')
    SubTrackingAnalyzer(None, made).combine_sub_tracking_files(
        [file for path in given for file in _files_in(path, os.path.splitext(made)[1])]
    )
    return 0


def _files_in(path: str, ending: str) -> list[str]:
    """Return ``path``, or the files of a folder with the ``ending``; there must be at least one."""
    if not os.path.isdir(path):
        return [path]
    found = [os.path.join(path, name) for name in sorted(os.listdir(path)) if name.endswith(ending)]
    if not found:
        raise GpuTrackerError(f'the new file ends in {ending}, but {path} has no {ending} files')
    return found


def _analyze(values: options.Values) -> int:
    from gpu_tracker.sub_tracker import SubTrackingAnalyzer  # noqa: PLC0415 - as above

    tracked, blocks = _path(values, '--tf'), _path(values, '--stf')
    destination, form = _destination(values), _format(values)
    return _write(SubTrackingAnalyzer(tracked, blocks).sub_tracking_results(), destination, form)


def _compare(values: options.Values) -> int:
    from gpu_tracker.sub_tracker import TrackingComparison  # noqa: PLC0415 - as above

    files, statistic = _configuration(values['--cconfig'])
    for pair in [*_texts(values, '--map'), *_texts(values, '<name=file>')]:
        name, equals, path = pair.partition('=')
        if not (name and equals and path):
            raise ParameterError('-m', pair, 'NAME=FILE')
        files[name] = path
    if not files:
        raise UsageError('-m or --cconfig is missing: name the results to compare')
    if values['--stat'] is not None:
        statistic = str(values['--stat'])
    destination, form = _destination(values), _format(values)
    try:
        results = TrackingComparison(files).compare('mean' if statistic is None else statistic)
    except ParameterError as error:
        raise options.of_option(error, '--stat', statistic) from None
    return _write(results, destination, form)


def _configuration(path: object) -> tuple[dict[str, str], str | None]:
    """Return the files by the names of runs, and the statistic, from the file of ``--cconfig``."""
    if path is None:
        return {}, None
    found = config_files.read_object('--cconfig', str(path))
    files, statistic = found.get('file_path_map', {}), found.get('statistic')
    is_map = isinstance(files, dict) and all(isinstance(file, str) for file in files.values())
    if not is_map or not isinstance(statistic, str | None):
        accepted = '"file_path_map" must be an object of paths, and "statistic" must be a text'
        raise GpuTrackerError(f'--cconfig: in {path}, {accepted}')
    return dict(files), statistic


def _path(values: options.Values, option: str) -> str:
    if not values[option]:
        raise ParameterError(option, values[option], 'the path of a file')
    return str(values[option])


def _texts(values: options.Values, name: str) -> list[str]:
    found = values[name]
    return found if isinstance(found, list) else []


def _format(values: options.Values) -> str:
    if values['--format'] == 'pickle':
        raise GpuTrackerError(
            '-f pickle was removed, because loading a pickle can run any code. Use -f json, which'
            " 'gpu-tracker sub-track compare' and TrackingComparison read."
        )
    return options.chosen_format(values, _FORMATS)


def _destination(values: options.Values) -> Destination:
    path = options.output_path(values)
    destination = Destination(path)
    destination.check(path)
    return destination


def _write(results: SubTrackingResults | ComparisonResults, destination: Destination, form: str) -> int:
    text = json.dumps(results.to_json(), indent=1) if form == 'json' else str(results)
    return 0 if destination.write(text) else FAILURE
