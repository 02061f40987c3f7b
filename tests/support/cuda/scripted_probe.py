"""Runs ``gpu-tracker probe`` with a probe that sees what it is told to, so that it needs no rights and no CUDA.

    python -m support.cuda.scripted_probe FILE ...     # FILE gets a line for each thing that the probe is asked for

The variable STAGED_PROBLEM says why there is no probe, STAGED_FAULT what nobody has expected. STAGED_DETACHING names a
FIFO: it takes until somebody writes to that to detach.
"""

from __future__ import annotations

import os
import sys
import threading
from typing import TYPE_CHECKING

from gpu_tracker.cli import options, probe
from gpu_tracker.errors import GpuTrackerError
from support.cuda.cuda_reports import process, report

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gpu_tracker.cuda_probe.cuda_report import CudaReport
    from gpu_tracker.cuda_probe.limits import Limits


class StagedProbe:
    """Sees a thousand launches more at each look, which it takes for a second each."""

    def __init__(self, log: str, limits: Limits, libraries: Sequence[str], command: Sequence[str]) -> None:
        self._log = log
        self._followed: list[int] = []
        self._looks = 0
        self._is_finished = False
        self._end = threading.Event()
        self._note(f'limits {limits.kernels} libraries {" ".join(libraries)} command {" ".join(command)}')

    def open(self) -> None:
        if 'STAGED_PROBLEM' in os.environ:
            raise GpuTrackerError(os.environ['STAGED_PROBLEM'])
        if 'STAGED_FAULT' in os.environ:
            raise RuntimeError(os.environ['STAGED_FAULT'])
        self._note('open')

    def follow(self, pid: int) -> None:
        self._note(f'follow {pid}')
        self._followed.append(pid)

    def start(self) -> None:
        self._note('start')
        threading.Thread(target=self._end.wait).start()

    def report(self) -> CudaReport:
        self._note('report')
        return self._seen()

    def _seen(self) -> CudaReport:
        self._looks += 1
        return report(
            *(
                process(
                    pid,
                    launches=1000 * self._looks,
                    launches_per_second=1000.0,
                    ended=self._is_finished,
                    command='\x1b[2Jprogram',
                )
                for pid in self._followed
            ),
            seconds=float(self._looks),
            engine='staged',
        )

    def finish(self) -> CudaReport:
        self._note('finish')
        self._is_finished = True
        return self._seen()

    def close(self) -> None:
        self._note('close')
        self._end.set()
        if 'STAGED_DETACHING' in os.environ:
            with open(os.environ['STAGED_DETACHING'], encoding='utf-8') as file:
                file.read()

    def _note(self, text: str) -> None:
        with open(self._log, 'a', encoding='utf-8') as file:
            file.write(f'{text}\n')


if __name__ == '__main__':
    given = options.parse(probe.TEXT, sys.argv[2:], 'probe')
    sys.exit(probe.run(given, lambda *asked: StagedProbe(sys.argv[1], *asked)))
