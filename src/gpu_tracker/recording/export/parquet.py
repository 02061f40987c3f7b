"""The samples as Parquet, written by pyarrow or polars, whichever is installed."""

from __future__ import annotations

import tempfile
from importlib import import_module
from typing import IO, TYPE_CHECKING, Any

from gpu_tracker.errors import RecordingError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gpu_tracker.recording.reading.recording import Recording
    from gpu_tracker.recording.reading.samples import Samples

_PIECE = 1 << 20
_GROUP = 1 << 18
"""Rows in a row group."""


def pieces(recording: Recording) -> Iterator[bytes]:
    """Yield the file, which has its table of contents at its end.

    :raises RecordingError: where neither package is installed.
    """
    with tempfile.TemporaryFile(prefix='gpu-tracker-') as file:
        _write(recording.samples, file)
        file.seek(0)
        while piece := file.read(_PIECE):
            yield piece


def _write(samples: Samples, file: IO[bytes]) -> None:
    arrow = _module('pyarrow')
    writer_module = None if arrow is None else _module('pyarrow.parquet')
    if arrow is not None and writer_module is not None:
        schema = samples.arrow_schema(arrow)
        with writer_module.ParquetWriter(file, schema) as writer:
            for part in samples.parts(_GROUP):
                writer.write_batch(arrow.RecordBatch.from_pydict(part, schema=schema))
    elif _module('polars') is not None:
        samples.to_polars().write_parquet(file)
    else:
        from gpu_tracker.installation import package_command  # noqa: PLC0415 - only where the package is missing

        raise RecordingError(f'Parquet needs the package pyarrow or polars: {package_command("pyarrow")}')


def _module(name: str) -> Any:  # noqa: ANN401 - a module, or None where it is not installed
    try:
        return import_module(name)
    except ImportError:
        return None
