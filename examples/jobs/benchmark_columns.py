"""Write recordings as a benchmark file of Snakemake: ``python benchmark_columns.py run.db > run.tsv``."""

import sys
from datetime import timedelta

import gpu_tracker as gput

COLUMNS = ('s', 'h:m:s', 'max_rss', 'max_vms', 'max_uss', 'max_pss', 'io_in', 'io_out', 'mean_load', 'cpu_time')
MEBIBYTE = 2**20


def row_of(usage: gput.ResourceUsage) -> list[object]:
    """Return the figures of a result in bytes and seconds, in the order of the columns."""
    seconds, ram = usage.compute_time.time, usage.max_ram.combined
    load = usage.cpu_utilization.combined.mean_sum_percent
    read, written = (None, None) if usage.io is None else (usage.io.combined.read, usage.io.combined.written)
    sizes = (None if size is None else size / MEBIBYTE for size in (ram.total_rss, ram.private_rss, read, written))
    total, private, io_in, io_out = sizes
    cpu_time = None if load is None else load / 100 * seconds
    duration = timedelta(seconds=int(seconds))
    return [seconds, duration, total, None, private, total, io_in, io_out, load, cpu_time]


def text_of(value: object) -> str:
    """Return a value as Snakemake writes it."""
    if value is None:
        return 'NA'
    return f'{value:.2f}' if isinstance(value, float) else str(value)


print(*COLUMNS, sep='\t')
for path in sys.argv[1:]:
    with gput.load(path) as recording:
        print(*map(text_of, row_of(recording.summary('bytes', 'bytes', 'seconds'))), sep='\t')
