"""Ranks of jobs that run, for an agent with ``--jobs`` to report."""

from __future__ import annotations

import contextlib
import sys
from typing import TYPE_CHECKING, Any

from support.cli_program import started
from support.running_ranks import reported_ram
from support.tracked_program import environment
from support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from support.fleet.agent_program import AgentProgram

KEPT = 50_000_000
WAITS = f'import sys; kept = bytearray({KEPT}); sys.stdin.read()'


@contextlib.contextmanager
def rank(folder: Path, number: int, job: str = '4711', size: int = 2) -> Iterator[Any]:
    """Run a rank of a job, which ends when its standard input does; give its process."""
    identity = {
        'GPU_TRACKER_JOB': job,
        'GPU_TRACKER_RANK': f'{number}',
        'GPU_TRACKER_SIZE': f'{size}',
        'GPU_TRACKER_NODE': 'n1',
    }
    words = (f'--job={folder}', '--st=0.1', '--', sys.executable, '-c', WAITS)
    with started(*words, env=environment(identity), stdin=-1) as process:
        eventually(lambda: reported_ram(folder, number) > KEPT)
        yield process
        process.communicate()


def jobs(served: AgentProgram) -> list[dict]:
    """Return the jobs that an agent reports, when there are some."""
    return eventually(lambda: served.host()['jobs'])
