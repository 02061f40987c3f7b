"""``gpu-tracker probe`` by perf events, as on kernels that have no uprobe.multi; with the options of probe."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from gpu_tracker.cli import probe
from gpu_tracker.cuda_probe.probe_session import Probe

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gpu_tracker.cuda_probe.limits import Limits


def _by_perf(limits: Limits, libraries: Sequence[str], command: Sequence[str]) -> Probe:
    return Probe(limits, libraries, command, engine='perf')


sys.exit(probe.run(['probe', *sys.argv[1:]], _by_perf))
