"""The tools that are compared, ours first and the older implementation of the same interface second."""

from __future__ import annotations

from benchmarks.peers.gpu_tracker import OlderImplementation, ThisCheckout
from benchmarks.peers.nvitop import Nvitop
from benchmarks.peers.peer import FIGURES, Peer, Report, Run
from benchmarks.peers.samplers import ConDuct, Denet, MemoryProfiler, Procpath, Psrecord
from benchmarks.peers.system import GnuTime

__all__ = ['FIGURES', 'OURS', 'PEERS', 'THE_OLDER', 'Peer', 'Report', 'Run']

OURS: Peer = ThisCheckout()
THE_OLDER: Peer = OlderImplementation()
PEERS: tuple[Peer, ...] = (
    OURS,
    THE_OLDER,
    Psrecord(),
    ConDuct(),
    MemoryProfiler(),
    Procpath(),
    Denet(),
    GnuTime(),
    Nvitop(),
)
