"""``gpu-tracker export``: a recording in the formats of other programs."""

from __future__ import annotations

import os

from gpu_tracker.cli import options, output
from gpu_tracker.errors import ParameterError

TEXT = """
Writes a recording in the format of another program.

Usage:
  gpu-tracker export [<file>] --format=<format> [options]

Options:
  -f --format=<format>  Write one of these formats:
                          csv           one line for each sample
                          jsonl         the whole recording as JSON Lines
                          parquet       the samples (needs pyarrow or polars)
                          chrome-trace  samples and regions, for ui.perfetto.dev
                          sub-tracking  the regions, as a file of gpu-tracker 5
  -o --output=<file>    Write to this file instead of standard output.
  --salvage             Read a damaged or truncated file as far as possible.
  -h --help             Print this text.
  -v --version          Print the version.

<file> is a recording, or the number or ID of a run: see gpu-tracker runs.
Default: last, the run that ended last.
"""


def run(values: options.Values) -> int:
    """Export what ``values`` ask for, and return the exit code."""
    from gpu_tracker.cli.recordings import opened  # noqa: PLC0415 - help does without
    from gpu_tracker.recording import export  # noqa: PLC0415 - as above

    formats = f'one of {", ".join(export.FORMATS)}'
    name = str(values['--format'])
    if name not in export.FORMATS:
        raise ParameterError('--format', name, formats)
    path = options.output_path(values)
    if path is None and name in export.BINARY and os.isatty(output.STANDARD_OUTPUT):
        raise options.UsageError(f'-f {name} needs --output, because the format is binary')

    with opened(options.recording(values), path, salvage=bool(values['--salvage'])) as recording:
        if path is None:
            return output.print_pieces(export.pieces(recording, name))
        recording.export(path, name)
    return 0
