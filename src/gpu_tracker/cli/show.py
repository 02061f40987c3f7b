"""``gpu-tracker show``: shows a recording."""

from __future__ import annotations

import os

from gpu_tracker.cli import options, output, screen
from gpu_tracker.cli.request import take_adaptive_units
from gpu_tracker.errors import ParameterError
from gpu_tracker.units import TIME_UNITS_ACCEPTED, UNITS_ACCEPTED, memory_unit, time_unit

TEXT = """
Shows a recording: the run, its result, and what each region used. Also shows
the result of a killed run, and the report of a job.

Usage:
  gpu-tracker show [<file>] [options]

Options:
  -f --format=<format>  Print the recording as text, json or summary (the result
                        in twelve lines). [default: text]
  --json                The same as --format=json.
  --ram-unit, --ru=<unit>  Print RAM in this unit, such as MB or GiB. With auto,
                        each figure has a unit that fits its size, except in
                        JSON. Default: the unit that was chosen for the run.
  --gpu-ram-unit, --gru=<unit>  Print GPU RAM in this unit, such as MB, GiB or
                        auto. Default: the unit that was chosen for the run.
  --time-unit, --tu=<unit>  Print times in this unit: s, min, h, d or auto.
                        Default: the unit that was chosen for the run.
  -o --output=<file>    Write to this file instead of standard output.
  --no-advice           Print no advice for the next run.
  --salvage             Read a damaged or truncated file as far as possible.
  -h --help             Print this text.
  -v --version          Print the version.

<file> is a recording, the number or ID of a run (see gpu-tracker runs), the
file of a killed run, or the folder of a job. Default: last, the run that ended
last.

Regions, which are named parts of the program, are shown as a tree. Calls of the
same name inside the same region are one line. ~ marks an estimate from the
samples around a region, >= a lower bound, <= an upper bound.
"""


def run(values: options.Values) -> int:
    """Show what ``values`` ask for, and return the exit code."""
    name = options.chosen_format(values, options.FORMATS)
    file = options.recording(values)
    path = options.output_path(values)
    adaptive = take_adaptive_units(values)
    chosen = _units(values)

    if os.path.isdir(file):
        if any(chosen):
            raise options.UsageError(f'{file} is the folder of a job: leave out the options for units')
        from gpu_tracker.cli import merge  # noqa: PLC0415 - of jobs alone

        return merge.write([file], name, path, with_advice=not values['--no-advice'])

    from gpu_tracker.cli import recordings  # noqa: PLC0415 - help does without

    file = recordings.named(file)
    kept = recordings.killed_run(file)
    if kept is not None:
        from gpu_tracker.cli import runs  # noqa: PLC0415 - of killed runs alone

        return runs.show(kept, name, path, chosen, adaptive)

    from dataclasses import replace  # noqa: PLC0415 - help does without

    from gpu_tracker.advice import advice_in  # noqa: PLC0415 - as above
    from gpu_tracker.recording.reading import shown  # noqa: PLC0415 - as above
    from gpu_tracker.result.formats import as_summary  # noqa: PLC0415 - as above

    with recordings.opened(file, path, salvage=bool(values['--salvage'])) as recording:
        advice = () if values['--no-advice'] else advice_in(recording)
        if name == 'json':
            text = shown.as_json(recording, *chosen, advice=advice)
        elif name == 'summary':
            text = as_summary(replace(recording.summary(), advice=advice))
        else:
            width = screen.width() if path is None else None
            text = shown.as_text(recording, width, *chosen, adaptive=adaptive, advice=advice)
    return output.deliver(text, path)


def _units(values: options.Values) -> tuple[str | None, str | None, str | None]:
    """Return the requested units of RAM, GPU RAM and time; None: the unit of the run."""
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
