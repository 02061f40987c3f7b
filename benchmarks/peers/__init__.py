"""The tools that are compared, ours first and the older implementation of the same interface second."""

from __future__ import annotations

from benchmarks.environments import Tool
from benchmarks.peers.bpf import Bcc, Bpftrace
from benchmarks.peers.fuser import Fuser
from benchmarks.peers.gpu_tracker import EarlierRevision, OlderImplementation, ThisCheckout
from benchmarks.peers.listers import Gpustat, Nvgpu
from benchmarks.peers.nvitop import Nvitop
from benchmarks.peers.peer import FIGURES, Peer, Report, Run
from benchmarks.peers.samplers import ConDuct, Denet, MemoryProfiler, Procpath, Psrecord
from benchmarks.peers.system import GnuTime

__all__ = [
    'BCC',
    'BEFORE',
    'BPFTRACE',
    'CON_DUCT',
    'DENET',
    'FIGURES',
    'FUSER',
    'GPUSTAT',
    'NVGPU',
    'NVITOP',
    'OURS',
    'PEERS',
    'PSRECORD',
    'THE_OLDER',
    'TOOLS',
    'Peer',
    'Report',
    'Run',
    'Tool',
]

OURS: Peer = ThisCheckout()
THE_OLDER: Peer = OlderImplementation()
BEFORE = EarlierRevision()
PSRECORD: Peer = Psrecord()
CON_DUCT: Peer = ConDuct()
DENET: Peer = Denet()
NVITOP: Peer = Nvitop()
GPUSTAT: Tool = Gpustat()
NVGPU: Tool = Nvgpu()
FUSER: Tool = Fuser()
BPFTRACE: Tool = Bpftrace()
BCC: Tool = Bcc()
PEERS: tuple[Peer, ...] = (
    OURS,
    THE_OLDER,
    PSRECORD,
    CON_DUCT,
    MemoryProfiler(),
    Procpath(),
    DENET,
    GnuTime(),
    NVITOP,
)
"""Those that measure programs."""
TOOLS: tuple[Tool, ...] = (*PEERS, GPUSTAT, NVGPU, FUSER, BPFTRACE, BCC)
