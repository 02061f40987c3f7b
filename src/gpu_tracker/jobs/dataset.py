"""The samples of all ranks as one dataset of Parquet files, in folders that say job and rank (Hive's layout)."""

from __future__ import annotations

import os
import shutil
from importlib import import_module
from itertools import repeat
from typing import TYPE_CHECKING, Any

from gpu_tracker.errors import RecordingError
from gpu_tracker.job import job_name
from gpu_tracker.jobs.loading import open_recording, read_folders

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from gpu_tracker.jobs.records import RankRecord
    from gpu_tracker.recording.reading.recording import Recording

_GROUP = 1 << 18
"""Rows in a row group."""
_MICRO = 1e6
_LONGEST_PART = 200
"""Bytes of a value in the name of a folder, which may have 255 together with its key."""
_NONE = '__HIVE_DEFAULT_PARTITION__'
"""What readers of this layout take for no value."""


def write_dataset(folders: Sequence[str], path: str) -> tuple[int, list[str]]:
    """Write the dataset; return how many recordings are in it, and what is wrong with others.

    Each file is ``job=.../rank=.../NAME.parquet`` and has the columns of ``gpu-tracker export -f parquet``, with
    ``time``, a time stamp in UTC, ``run``, the name of the file, ``node``, ``step``, ``array_task`` and ``attempt`` in
    front.

    :param folders: Those of the job.
    :param path: The folder of the dataset, which must not be there yet. It is there when it is complete.
    :raises RecordingError: where pyarrow is not installed, no rank has a recording, or something cannot be written.
    """
    try:
        arrow: Any = import_module('pyarrow')
        parquet: Any = import_module('pyarrow.parquet')
    except ImportError as error:
        from gpu_tracker.installation import package_command  # noqa: PLC0415 - only where the package is missing

        message = f'a dataset of Parquet files needs the package pyarrow: {package_command("pyarrow")}'
        raise RecordingError(message) from error
    records, problems = read_folders(folders)
    recorded = [record for record in records if record.recording is not None]
    if not recorded:
        raise RecordingError('no rank has a recording yet')
    if os.path.lexists(path):
        raise RecordingError(f'{path} exists already: choose a new folder for the dataset')
    unfinished = f'{path.rstrip("/")}.{os.getpid()}.partial'
    written = 0
    try:
        for record in recorded:
            folder = os.path.join(
                unfinished, f'job={_part(job_name(_fields(record)))}', f'rank={_part(record.job.rank)}'
            )
            os.makedirs(folder, exist_ok=True)
            try:
                with open_recording(record) as recording:
                    schema = _schema(arrow, recording)
                    file = os.path.join(folder, f'{record.name}.parquet')
                    with parquet.ParquetWriter(file, schema) as writer:
                        for rows in _rows(record, recording):
                            writer.write_batch(arrow.RecordBatch.from_pydict(rows, schema=schema))
                written += 1
            except RecordingError as error:
                problems.append(str(error))
        if not written:
            raise RecordingError(problems[-1])
        os.rename(unfinished, path)
    except OSError as error:
        raise RecordingError(f'cannot write {path}: {error.strerror or error}') from error
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)
    return written, problems


def _fields(record: RankRecord) -> dict[str, Any]:
    return {'job': record.job.job, 'array_task': record.job.array_task}


def _part(value: object) -> str:
    """Return a value as the name of a folder has it; of a long one its beginning."""
    if value is None:
        return _NONE
    found = ''
    for character in str(value):
        is_plain = character.isalnum() or character in '._-'
        part = character if is_plain else ''.join(f'%{byte:02X}' for byte in character.encode())
        if len((found + part).encode()) > _LONGEST_PART:
            break
        found += part
    return found


def _schema(arrow: Any, recording: Recording) -> Any:  # noqa: ANN401 - pyarrow has no types
    first = [
        ('time', arrow.timestamp('us', tz='UTC')),
        ('run', arrow.string()),
        ('node', arrow.string()),
        ('step', arrow.string()),
        ('array_task', arrow.int64()),
        ('attempt', arrow.int64()),
    ]
    samples = recording.samples.arrow_schema(arrow)
    return arrow.schema([*first, *((field.name, field.type) for field in samples)])


def _rows(record: RankRecord, recording: Recording) -> Iterator[dict[str, Any]]:
    start = recording.meta.start_unix_us
    for part in recording.samples.parts(_GROUP):
        times = part['t']
        count = len(times)
        yield {
            'time': [None if start is None or t is None else start + round(t * _MICRO) for t in times],
            'run': list(repeat(record.name, count)),
            'node': list(repeat(record.job.node or record.host, count)),
            'step': list(repeat(record.job.step, count)),
            'array_task': list(repeat(record.job.array_task, count)),
            'attempt': list(repeat(record.job.attempt, count)),
            **part,
        }
