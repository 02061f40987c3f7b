"""This project: the checkout, and the older implementation of the same interface."""

from __future__ import annotations

import csv
import json
import re
import shlex
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from benchmarks.environments import CHECKOUT, KEPT
from benchmarks.peers.peer import Peer, Report, Run

if TYPE_CHECKING:
    from benchmarks.environments import Environment

_RESULT = 'result.json'
_UNITS = ['--ru=bytes', '--gru=bytes', '--tu=seconds']
_SAMPLING = re.compile(r'Sampling: ([\d,]+) samples?.* mean interval ([\d.]+|unknown)(?: s)?, ([\d.]+) CPU')
_LINES_ABOVE_THE_SAMPLES = 2
_PATHS = {'peak': 'max_ram.combined.total_rss', 'cpu': 'cpu_utilization.combined.mean_sum_percent'}
_IMPORTING = 'from gpu_tracker import Tracker'


class ThisCheckout(Peer):
    """gpu-tracker as it is in this checkout."""

    name = 'gpu-tracker'
    requirement = f'{CHECKOUT}[cuda,fleet]'
    distribution = 'gpu-tracker'
    module = 'gpu_tracker'
    importing = _IMPORTING
    program = 'gpu-tracker'
    is_checkout = True

    def command(self, environment: Environment, run: Run) -> list[str]:
        """Return the words that make the peer run and measure the program."""
        options = [f'--st={run.interval:g}', '-f', 'json', '-o', str(run.folder / _RESULT), *_UNITS, '--verbose']
        return [environment.program('gpu-tracker'), *options, '--', *run.program]

    def report(self, run: Run, output: str) -> Report:
        """Return what the result file and the record of the sampling say."""
        usage = _result(run)
        record = _SAMPLING.search(output)
        samples = None if record is None else int(record[1].replace(',', ''))
        period = None if record is None or record[2] == 'unknown' else float(record[2])
        return Report(
            peak_bytes=usage['max_ram']['combined']['total_rss'],
            descendants_bytes=usage['max_ram']['descendants']['total_rss'],
            cpu_seconds=_cpu_seconds(usage),
            sampler_seconds=None if record is None else float(record[3]),
            samples=samples,
            seconds_sampled=None if period is None or samples is None else period * (samples - 1),
            lower_bounds=frozenset(name for name, path in _PATHS.items() if path in usage.get('lower_bounds', ())),
        )


class EarlierRevision(ThisCheckout):
    """gpu-tracker as it was in another revision of this checkout, whose files are put there before it is installed."""

    name = 'gpu-tracker before'
    folder = KEPT / 'before'
    requirement = f'{folder}[cuda,fleet]'


class OlderImplementation(Peer):
    """gpu-tracker 5.0.1. Its tracking file has a row a sample, which is the only way to count them."""

    name = 'gpu-tracker 5.0.1'
    requirement = 'gpu-tracker==5.0.1'
    distribution = 'gpu-tracker'
    module = 'gpu_tracker'
    importing = _IMPORTING
    program = 'gpu-tracker'
    cannot = MappingProxyType({'gpu': 'runs nvidia-smi, which the simulated driver does not have'})

    def command(self, environment: Environment, run: Run) -> list[str]:
        """Return the words that make the peer run and measure the program."""
        tracked = f'--tf={run.folder / "samples.csv"}'
        options = [f'--st={run.interval:g}', tracked, '-f', 'json', '-o', str(run.folder / _RESULT), *_UNITS]
        return [environment.program('gpu-tracker'), *options, '-e', shlex.join(run.program)]

    def report(self, run: Run, output: str) -> Report:
        """Return what the result file and the tracking file say; it tells mean percentages, not CPU time."""
        del output
        rows = list(csv.DictReader((run.folder / 'samples.csv').read_text().splitlines()[_LINES_ABOVE_THE_SAMPLES:]))
        times = [float(row['timestamp']) for row in rows]
        usage = _result(run)
        return Report(
            peak_bytes=usage['max_ram']['combined']['total_rss'],
            descendants_bytes=usage['max_ram']['descendants']['total_rss'],
            cpu_seconds=_cpu_seconds(usage),
            samples=len(times),
            seconds_sampled=times[-1] - times[0] if times else None,
        )


def _result(run: Run) -> Any:  # noqa: ANN401 - a JSON document
    return json.loads((run.folder / _RESULT).read_text())


def _cpu_seconds(usage: Any) -> float:  # noqa: ANN401 - a JSON document
    """Return the CPU time that a result implies: the mean number of cores in use times the seconds."""
    mean = usage['cpu_utilization']['combined']['mean_sum_percent']
    return float(mean) / 100 * float(usage['compute_time']['time'])
