"""Programs of the system that measure a command."""

from __future__ import annotations

import re
from types import MappingProxyType
from typing import TYPE_CHECKING

from benchmarks.peers.peer import Peer, Report, Run

if TYPE_CHECKING:
    from benchmarks.environments import Environment

_CPU = re.compile(r'(?:User|System) time \(seconds\): ([\d.]+)')
_PEAK = re.compile(r'Maximum resident set size \(kbytes\): (\d+)')


class GnuTime(Peer):
    """GNU time: what the kernel tells of a process that has ended; it takes no samples."""

    name = 'GNU time'
    requirement = None
    program = 'time'
    cannot = MappingProxyType(
        {
            'samples': 'takes no samples',
            'import': 'is no Python module',
            'start and stop': 'is no Python module',
            'gpu': 'does not read GPUs',
        }
    )

    def command(self, environment: Environment, run: Run) -> list[str]:
        """Return the words that make the peer run and measure the program."""
        return [environment.program('time'), '-v', *run.program]

    def report(self, run: Run, output: str) -> Report:
        """Return what it prints; the size is that of the largest single process."""
        del run
        peak = _PEAK.search(output)
        return Report(
            peak_bytes=None if peak is None else float(peak[1]) * 1024,
            cpu_seconds=sum(float(seconds) for seconds in _CPU.findall(output)),
        )
