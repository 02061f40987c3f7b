"""A made-up recording of a training on two GPUs: every picture has something to show of it, and all of it is known."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from support.recordings import (
    DEFAULT_COLUMNS,
    ENERGY_COLUMNS,
    IO_COLUMNS,
    ROOT,
    busy_rows,
    region,
    totals_of,
    write_recording,
)

if TYPE_CHECKING:
    from pathlib import Path

WORKER = ROOT + 1
SECONDS = 10
MB = 1e6
GIB = 2**30


def training(path: str | Path, *, command: str = 'train.py', speed: float = 1.0, name: str = 'epoch') -> str:
    """Write a run of ten samples a second, and return its path.

    The main process has 64 MiB, its worker 16 MiB more with each second. Together they use 1.5 cores, read 4 MB/s from
    storage and let the GPUs take 300 W. GPU 0 is busy for 20, 30, 40 ... percent, GPU 1 for 50.

    :param speed: How much faster a second run is.
    :param name: The name of the outer regions.
    """
    samples = round(SECONDS * 10 / speed) + 1
    rows = []
    gpu_rows = []
    process_rows = []
    for number in range(samples):
        t = number / 10
        main, worker = 64 * 2**20, round(16 * 2**20 * (1 + t))
        rows.append(
            (
                t,
                {
                    **busy_rows(1)[0][1],
                    'main_cpu': 0.5 * t,
                    'descendants_cpu': 1.0 * t,
                    'combined_cpu': 1.5 * t,
                    'system_cpu': 1.75 * t,
                    'main_total_rss': main,
                    'descendants_total_rss': worker,
                    'combined_total_rss': main + worker,
                    'descendants_n_threads': 1,
                    'combined_n_threads': 2,
                    'gpu_utilization': 70.0,
                    'combined_io_read': 4 * MB * t,
                    'combined_io_written': 1 * MB * t,
                    'gpu_energy': 300.0 * t,
                },
            )
        )
        micro = round(t * 1e6)
        gpu_rows += [
            (micro, 0, 6 * 2**20, 4 * 2**20, 100 * (20 + 10 * int(t))),
            (micro, 1, 3 * 2**20, 2 * 2**20, 5000),
        ]
        process_rows.append((micro, 0, main // 1024, round(0.5e6 * t), 1))
        if t >= 1:
            process_rows.append((micro, 1, worker // 1024, round(1e6 * t), 1))
    end = (samples - 1) / 10
    regions = [region(1, 'training', 0.5, end - 0.5, thread_cpu=4.0, peaks=(64 * 2**20, 65 * 2**20))]
    for number in range(3):
        start = 1 + number * (end - 2) / 3
        regions += [
            region(10 + 2 * number, name, start, start + 2 / speed, parent=1, thread_cpu=1.0),
            region(11 + 2 * number, 'step', start + 0.25, start + 1, parent=10 + 2 * number, thread_cpu=0.5),
        ]
    totals = totals_of('gpu') | {'seconds': end}
    totals['record'] |= {'has_descendants': True, 'tracked_seconds': end}
    return write_recording(
        path,
        columns=(*DEFAULT_COLUMNS, *IO_COLUMNS, *ENERGY_COLUMNS),
        rows=rows,
        regions=regions,
        meta={'command': f'["python", "{command}", "--epochs=3"]', 'interval': 0.1, 'totals': json.dumps(totals)},
        gpus=[(0, 'GPU-0', 'A100', 40 * 2**20), (1, 'GPU-1', 'A100', 40 * 2**20)],
        gpu_samples=gpu_rows,
        processes=[(0, ROOT, 1, 'python', 0), (1, WORKER, ROOT, 'worker', 1_000_000)],
        process_samples=process_rows,
        messages=[(500_000, 'warning', 'something to know')],
    )
