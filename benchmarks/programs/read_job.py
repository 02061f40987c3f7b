"""Reads the folder of a job in one of several ways, and prints, as JSON, the ranks found and its own peak of memory.

read_job.py HOW FOLDER. ``merge`` is ``gpu-tracker merge -f json --no-recordings``, ``merge-recordings`` the same with
``--recordings``; ``json`` loads the reports of all ranks with the json module, and ``json-sqlite`` reads the RAM of all
samples with the sqlite3 module as well.
"""

import json
import os
import sys
from contextlib import closing


def merge(folder: str, option: str) -> int:
    """Write the report of the job, as the command does, and return the number of its ranks."""
    from gpu_tracker.cli import main  # noqa: PLC0415 - the others do without

    path = f'{folder}-report.json'
    if main(['merge', folder, '-f', 'json', '-o', path, option]) != 0:
        sys.exit('merge has failed')
    with open(path, encoding='utf-8') as file:
        text = file.read(4096)  # the totals are at the beginning
    return int(text.partition('"ranks_started": ')[2].partition(',')[0])


def load(folder: str, ending: str) -> list[str]:
    """Return the paths of the reports or of the recordings."""
    names = [name for name in os.listdir(folder) if name.endswith(ending) and not name.endswith('.start.json')]
    return [os.path.join(folder, name) for name in sorted(names)]


def reports_of(folder: str) -> list[object]:
    """Return all reports."""
    found = []
    for path in load(folder, '.json'):
        with open(path, encoding='utf-8') as file:
            found.append(json.load(file))
    return found


def samples_of(folder: str) -> list[list[object]]:
    """Return time and RAM of all samples of each rank."""
    import sqlite3  # noqa: PLC0415 - as above

    found = []
    for path in load(folder, '.db'):
        with closing(sqlite3.connect(f'file:{path}?mode=ro', uri=True)) as connection:
            found.append(connection.execute('SELECT t, combined_total_rss FROM samples').fetchall())
    return found


def peak() -> int:
    """Return the high-water mark of this process' resident set in bytes, proc_pid_status(5)."""
    with open('/proc/self/status', encoding='ascii', errors='replace') as file:
        return next(int(line.split()[1]) * 1024 for line in file if line.startswith('VmHWM'))


how, of_job = sys.argv[1:]
kept: object = None
if how == 'merge':
    count = merge(of_job, '--no-recordings')
elif how == 'merge-recordings':
    count = merge(of_job, '--recordings')
else:
    reports = reports_of(of_job)
    kept = samples_of(of_job) if how == 'json-sqlite' else None
    count = len(reports)
print(json.dumps({'ranks': count, 'peak': peak()}))
