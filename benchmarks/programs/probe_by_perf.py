"""``gpu-tracker probe`` by perf events, as on kernels that have no uprobe.multi; with the options of probe."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from gpu_tracker.cli import options, probe
from gpu_tracker.cuda_probe.probe_session import Probe

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gpu_tracker.cuda_probe.limits import Limits


def _by_perf(limits: Limits, libraries: Sequence[str], command: Sequence[str]) -> Probe:
    return Probe(limits, libraries, command, engine='perf')


given = options.parse(probe.TEXT, sys.argv[1:], 'probe')
if isinstance(given, str):
    sys.exit(given)
sys.exit(probe.run(given, _by_perf))
