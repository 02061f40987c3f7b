"""``gpu-tracker show``: what was recorded of a run."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from gpu_tracker.cli import options, output, screen
from gpu_tracker.cli.request import take_adaptive_units
from gpu_tracker.errors import ParameterError, RecordingError
from gpu_tracker.units import TIME_UNITS_ACCEPTED, UNITS_ACCEPTED, memory_unit, time_unit

if TYPE_CHECKING:
    from collections.abc import Callable

    from gpu_tracker.recording.reading.recording import Recording

TEXT = """
Shows a recording: which run it is of, its result, and what each region used. Or
the result of a killed run.

Usage:
  gpu-tracker show <file> [options]

Options:
  -f --format=<format>  text, json, or summary: the result in twelve lines.
                        [default: text]
  --json                The same as --format=json.
  --ram-unit, --ru=<unit>  The unit of RAM, such as MB or GiB; auto, in text,
                        fits each figure. Default: the run's.
  --gpu-ram-unit, --gru=<unit>  The unit of GPU RAM, such as MB, GiB or auto.
                        Default: the run's.
  --time-unit, --tu=<unit>  The unit of time: s, min, h, d or auto. Default: the
                        run's.
  -o --output=<file>    Write to this file; - is standard output, the default.
  --salvage             Read a file that was cut off or is damaged as far as
                        possible.
  -h --help             Print this text.
  -v --version          Print the version.

Regions are a tree: those of the same name inside the same regions are one line.
Of figures that are not exact, ~ marks an estimate from the samples around a
region, >= a lower and <= an upper bound. Recordings are made with
gpu-tracker --record=<file>; gpu-tracker export writes them in other formats.
Of the folder of a job it shows what gpu-tracker merge does.

A killed run is named by its ID, which gpu-tracker runs lists, or by its file.
"""


def run(values: options.Values) -> int:
    """Show what ``values`` ask for, and return the exit code."""
    name = options.chosen_format(values, options.FORMATS)
    file = str(values['<file>'])
    path = options.output_path(values)
    adaptive = take_adaptive_units(values)
    chosen = _units(values)

    if os.path.isdir(file):
        if any(chosen):
            raise options.UsageError(f'{file} is the folder of a job, whose report chooses its units itself')
        from gpu_tracker.cli import merge  # noqa: PLC0415 - of jobs alone

        return merge.write([file], name, path)

    kept = _kept_run(file)
    if kept is not None:
        from gpu_tracker.cli import runs  # noqa: PLC0415 - of killed runs alone

        return runs.show(kept, name, path, chosen, adaptive)

    def show(recording: Recording) -> int:
        from gpu_tracker.recording.reading import shown  # noqa: PLC0415 - help does without
        from gpu_tracker.result.formats import as_summary  # noqa: PLC0415 - as above

        if name == 'json':
            text = shown.as_json(recording, *chosen)
        elif name == 'summary':
            text = as_summary(recording.summary())
        else:
            width = screen.width() if path is None else None
            text = shown.as_text(recording, width, *chosen, adaptive=adaptive)
        if path is None:
            return output.print_text(f'{text}\n')
        return 0 if output.Destination(path).write(text) else output.FAILURE

    return with_recording(file, path, show, salvage=bool(values['--salvage']))


def _kept_run(file: str) -> str | None:
    """Return the path of the killed run that ``file`` names; None if it is something else."""
    from gpu_tracker import killed_runs  # noqa: PLC0415 - help does without

    if os.path.lexists(file):
        return file if killed_runs.is_kept_run(file) else None
    return killed_runs.path_of(file)


def _units(values: options.Values) -> tuple[str | None, str | None, str | None]:
    """Return the units of RAM, GPU RAM and time that were asked for; None: that of the run."""
    found = []
    for option, read, accepted in (
        ('--ru', memory_unit, UNITS_ACCEPTED),
        ('--gru', memory_unit, UNITS_ACCEPTED),
        ('--tu', time_unit, TIME_UNITS_ACCEPTED),
    ):
        given = values[option]
        unit = None if given is None else read(str(given))
        if given is not None and unit is None:
            raise ParameterError(option, given, accepted)
        found.append(unit)
    ram, gpu_ram, time = found
    return ram, gpu_ram, time


def with_recording(file: str, output_path: str | None, use: Callable[[Recording], int], *, salvage: bool) -> int:
    """Return the exit code of ``use``, called with the recording that is open meanwhile.

    :param output_path: The file that is to be written, which must not be the recording.
    """
    from gpu_tracker.recording.export import check_destination  # noqa: PLC0415 - help does without
    from gpu_tracker.recording.reading.recording import load  # noqa: PLC0415 - as above
    from gpu_tracker.system.terminal_text import printable  # noqa: PLC0415 - as above

    try:
        with load(file, salvage=salvage) as recording:
            if output_path is not None:
                check_destination(recording, output_path)
            return use(recording)
    except RecordingError as error:
        raise RecordingError(printable(str(error))) from error
