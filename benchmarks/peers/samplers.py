"""Other tools that sample a process tree."""

from __future__ import annotations

import csv
import json
import shlex
import sqlite3
from datetime import datetime
from types import MappingProxyType
from typing import TYPE_CHECKING

from benchmarks.peers.peer import Peer, Report, Run

if TYPE_CHECKING:
    from collections.abc import Sequence

    from benchmarks.environments import Environment

_MEBIBYTE = 2**20
_PAGE = 4096
_TICKS_A_SECOND = 100

_COMMAND_ONLY = MappingProxyType(
    {
        'start and stop': 'has no calls that start and stop it within a program',
        'gpu': 'does not read GPUs',
    }
)
_NO_CPU = 'does not measure CPU time'


def _series(peak: float | None, times: Sequence[float], cpu_seconds: float | None = None) -> Report:
    return Report(
        peak_bytes=peak,
        cpu_seconds=cpu_seconds,
        samples=len(times),
        seconds_sampled=times[-1] - times[0] if times else None,
    )


class Psrecord(Peer):
    """psrecord: the sum of the resident sizes and the CPU percentage of a process and its children."""

    name = 'psrecord'
    requirement = 'psrecord'
    distribution = 'psrecord'
    module = 'psrecord'
    importing = 'from psrecord.main import monitor'
    program = 'psrecord'
    cannot = _COMMAND_ONLY

    def command(self, environment: Environment, run: Run) -> list[str]:
        """Return the words that make the peer run and measure the program."""
        options = ['--interval', f'{run.interval:g}', '--include-children', '--log-format', 'csv']
        return [environment.program('psrecord'), shlex.join(run.program), *options, '--log', str(run.folder / 'log')]

    def report(self, run: Run, output: str) -> Report:
        """Return what its log says."""
        del output
        rows = list(csv.DictReader((run.folder / 'log').read_text().splitlines()))
        times = [float(row['elapsed_time']) for row in rows]
        # A percentage is that of the time since the sample before, which the first one does not have.
        ends = zip(rows[1:], times[1:], times, strict=False)
        cpu = sum(float(row['cpu']) / 100 * (end - start) for row, end, start in ends)
        return _series(max(float(row['mem_real']) for row in rows) * _MEBIBYTE, times, cpu)


class ConDuct(Peer):
    """con-duct: runs ps for each sample of the session that it starts."""

    name = 'con-duct'
    requirement = 'con-duct'
    distribution = 'con-duct'
    module = 'con_duct'
    importing = 'import con_duct.cli'
    program = 'con-duct'
    cannot = _COMMAND_ONLY | {'cpu': 'tells percentages of ps, which are means since the start of each process'}

    def command(self, environment: Environment, run: Run) -> list[str]:
        """Return the words that make the peer run and measure the program."""
        seconds = f'{run.interval:g}'
        options = ['--quiet', '--sample-interval', seconds, '--report-interval', seconds]
        files = ['-c', 'none', '-o', 'none', '-p', f'{run.folder}/duct_']
        return [environment.program('con-duct'), 'run', *options, *files, *run.program]

    def report(self, run: Run, output: str) -> Report:
        """Return what its summary and its log of reports say."""
        del output
        summary = json.loads((run.folder / 'duct_info.json').read_text())['execution_summary']
        lines = (run.folder / 'duct_usage.jsonl').read_text().splitlines()
        times = [datetime.fromisoformat(json.loads(line)['timestamp']).timestamp() for line in lines]
        return _series(float(summary['peak_rss']), times)


class MemoryProfiler(Peer):
    """memory_profiler's mprof: the sum of the resident sizes of a process and its children."""

    name = 'memory_profiler'
    requirement = 'memory_profiler'
    distribution = 'memory_profiler'
    module = 'memory_profiler'
    importing = 'from memory_profiler import memory_usage'
    program = 'mprof'
    cannot = _COMMAND_ONLY | {'cpu': _NO_CPU}

    def command(self, environment: Environment, run: Run) -> list[str]:
        """Return the words that make the peer run and measure the program."""
        options = ['--nopython', '-C', '-T', f'{run.interval:g}', '-o', str(run.folder / 'log')]
        return [environment.program('mprof'), 'run', *options, *run.program]

    def report(self, run: Run, output: str) -> Report:
        """Return what its log says: lines of MEM, mebibytes, time."""
        del output
        rows = [line.split() for line in (run.folder / 'log').read_text().splitlines() if line.startswith('MEM ')]
        return _series(max(float(row[1]) for row in rows) * _MEBIBYTE, [float(row[2]) for row in rows])


class Procpath(Peer):
    """Procpath: writes the process tree below a process into an SQLite file; it cannot start the program itself."""

    name = 'Procpath'
    requirement = 'Procpath'
    distribution = 'Procpath'
    module = 'procpath'
    program = 'procpath'
    cannot = _COMMAND_ONLY | {
        'command': 'records a process that runs already',
        'effect': 'records a process that runs already',
        'import': 'is a command; its module has nothing in it',
    }

    def command(self, environment: Environment, run: Run) -> list[str]:
        """Return the words that make the peer run and measure the program."""
        options = ['-i', f'{run.interval:g}', '-d', str(run.folder / 'records'), '-f', 'stat', '--stop-without-result']
        record = shlex.join([environment.program('procpath'), 'record', *options])
        query = '"\\$..children[?(@.stat.pid == $!)]"'
        return ['/bin/sh', '-c', f'{shlex.join(run.program)} & {record} -p $! {query}; wait']

    def report(self, run: Run, output: str) -> Report:
        """Return what its file says."""
        del output
        with sqlite3.connect(run.folder / 'records') as records:
            sums = records.execute('SELECT ts, SUM(stat_rss) FROM record GROUP BY ts ORDER BY ts').fetchall()
            ends = 'SELECT MAX(stat_utime + stat_stime) AS ticks FROM record GROUP BY stat_pid, stat_starttime'
            ticks = records.execute(f'SELECT SUM(ticks) FROM ({ends})').fetchone()[0]  # noqa: S608 - two constants
        records.close()
        cpu = None if ticks is None else ticks / _TICKS_A_SECOND
        return _series(max((pages for _, pages in sums), default=0) * _PAGE, [time for time, _ in sums], cpu)


class Denet(Peer):
    """denet: a monitor in Rust, here by its Python interface, whose thread takes a sample and sleeps."""

    name = 'denet'
    requirement = 'denet'
    distribution = 'denet'
    module = 'denet'
    importing = 'from denet import execute_with_monitoring'
    cannot = _COMMAND_ONLY

    def command(self, environment: Environment, run: Run) -> list[str]:
        """Return the words that make the peer run and measure the program."""
        milliseconds = round(run.interval * 1000)
        call = (
            'import sys, denet; code, _ = denet.execute_with_monitoring(sys.argv[2:], stdout_file="/dev/stdout", '
            f'stderr_file="/dev/stderr", base_interval_ms={milliseconds}, max_interval_ms={milliseconds}, '
            'store_in_memory=False, output_file=sys.argv[1], quiet=True); sys.exit(code)'
        )
        return [environment.python, '-c', call, str(run.folder / 'log'), *run.program]

    def report(self, run: Run, output: str) -> Report:
        """Return what its log says."""
        del output
        rows = [json.loads(line) for line in (run.folder / 'log').read_text().splitlines()]
        # A line is a process alone, a tree, or the news of a child or of the end.
        sums = [figures for row in rows if 'mem_rss_kb' in (figures := row.get('aggregated', row) or {})]
        times = [row['ts_ms'] / 1000 for row in sums]
        ends = zip(sums[1:], times[1:], times, strict=False)
        cpu = sum(row['cpu_usage'] / 100 * (end - start) for row, end, start in ends)
        return _series(max(row['mem_rss_kb'] for row in sums) * 1024, times, cpu)
