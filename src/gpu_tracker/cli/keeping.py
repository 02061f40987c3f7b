"""Which runs are kept under a number: runs of ``gpu-tracker CMD`` without another recording."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

from gpu_tracker import job

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gpu_tracker.cli import options

_OF_BATCH_JOBS = ('SLURM_JOB_ID', 'PBS_JOBID', 'LSB_JOBID', 'PMI_RANK', 'PMIX_RANK')
"""Variables of schedulers and ranks. Their runs are not kept: nobody would search them on a node."""


def wanted(values: options.Values, environment: Mapping[str, str]) -> bool:
    """Return whether a run is to be kept."""
    if sys.platform != 'linux' or values['--no-keep'] or values['--tf'] is not None or values['--job'] is not None:
        return False
    if values['--keep']:
        return True
    is_unattended = (
        environment.get('GPU_TRACKER_KEEP') == '0'
        or environment.get('CI', '').lower() in {'true', '1'}
        or any(name in environment for name in _OF_BATCH_JOBS)
        or job.identify(environment, os.getpid()) is not None
    )
    return bool(values['<command>']) and not is_unattended
