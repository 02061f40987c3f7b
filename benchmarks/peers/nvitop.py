"""nvitop: its collector samples GPUs and the processes on them."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING

from benchmarks.peers.peer import FIGURES, Peer, Report, Run

if TYPE_CHECKING:
    from benchmarks.environments import Environment

_HAS = {'gpu', 'import'}


class Nvitop(Peer):
    """nvitop's ResourceMetricCollector, compared for GPUs only."""

    name = 'nvitop'
    requirement = 'nvitop'
    distribution = 'nvitop'
    module = 'nvitop'
    importing = 'from nvitop import ResourceMetricCollector'
    cannot = MappingProxyType({figure: 'compared for GPUs only' for figure in FIGURES if figure not in _HAS})

    def command(self, environment: Environment, run: Run) -> list[str]:
        """Refuse: it measures from within a program."""
        raise NotImplementedError

    def report(self, run: Run, output: str) -> Report:
        """Refuse: it measures from within a program."""
        raise NotImplementedError
