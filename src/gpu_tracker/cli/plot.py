"""``gpu-tracker plot``: a recording as a picture to be printed."""

from __future__ import annotations

import os
from contextlib import ExitStack

from gpu_tracker.cli import options, output
from gpu_tracker.cli.report import check_begin, part_of, path_beside, stem_of, write
from gpu_tracker.errors import ParameterError
from gpu_tracker.system.terminal_text import printable

TEXT = """
Draws a recording as a picture: RAM, CPU, GPUs, I/O and power over time, and regions.
Several recordings are drawn over each other, with a colour for each group.

Usage:
  gpu-tracker plot [options] [<group>...]

A group is FILE or NAME=FILE[,FILE...], as in gpu-tracker compare.

  gpu-tracker plot run.db -o run.svg
  gpu-tracker plot old=a.db,b.db new=c.db,d.db -o both.svg

Options:
  -o --output=<picture>  Write the picture to this file, whose name ends in
                         .png, .svg or .pdf. Default for one recording: its path,
                         with the ending .png. The default for kept run 17 is
                         run-17.png in the current folder.
  --only=<panels>        Draw only these panels, separated by commas: ram, cpu,
                         gpu_ram, gpu, gpu_activity, io, power. Default: all
                         panels with recorded figures.
  --from=<seconds>       Start the picture this number of seconds after the
                         first sample.
  --to=<seconds>         End the picture this number of seconds after the first
                         sample.
  --salvage              Read a damaged or truncated file as far as possible.
  -h --help              Print this text.
  -v --version           Print the version.

Plots need matplotlib, which the extra plot installs.
A FILE is a recording, or the number or ID of a run: see gpu-tracker runs. Default:
last, the run that ended last.
"""


def run(values: options.Values) -> int:
    """Draw what ``values`` ask for, and return the exit code."""
    from gpu_tracker.cli.compare import groups_of  # noqa: PLC0415 - help does without
    from gpu_tracker.cli.recordings import opened  # noqa: PLC0415 - as above
    from gpu_tracker.views import overlay, plot  # noqa: PLC0415 - as above

    given = values['<group>']
    named = groups_of(given if isinstance(given, list) and given else [options.LAST_RUN])
    path = _path(values, [file for files in named.values() for file in files])
    kind = os.path.splitext(path)[1].removeprefix('.').lower()
    if kind not in plot.FORMATS:
        raise ParameterError('--output', path, 'a path that ends in .png, .svg or .pdf')
    start, stop = part_of(values)
    only = None if values['--only'] is None else str(values['--only']).split(',')
    try:
        plot.keys_of(only or ())
    except ParameterError as error:
        raise ParameterError('--only', values['--only'], error.accepted) from error

    with ExitStack() as stack:
        groups = {
            name: [stack.enter_context(opened(file, path, salvage=bool(values['--salvage']))) for file in files]
            for name, files in named.items()
        }
        recordings = [recording for group in groups.values() for recording in group]
        check_begin(recordings, start)
        if len(recordings) == 1:
            drawn = plot.plot(recordings[0], only, start, stop)
        else:
            drawn = overlay.overlay(groups, only, start, stop)
        write(path, plot.picture(drawn, kind))
    if values['--output'] is None:
        output.say(f'The picture is in {printable(path)}')
    return 0


def _path(values: options.Values, files: list[str]) -> str:
    """Return the path of the picture."""
    from gpu_tracker.cli.recordings import file_of  # noqa: PLC0415 - help does without
    from gpu_tracker.views.plot import GENERATOR  # noqa: PLC0415 - as above

    if values['--output'] is not None:
        return os.path.expanduser(str(values['--output']))
    if len(files) > 1:
        raise options.UsageError('a plot of several recordings needs --output=FILE')
    return path_beside(stem_of(file_of(files[0])), '.png', GENERATOR)
