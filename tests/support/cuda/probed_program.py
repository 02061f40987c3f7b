"""A program of the CUDA stand-in that is probed from before its first call until after its last."""

from __future__ import annotations

import contextlib
import os
from typing import TYPE_CHECKING, NamedTuple

import pytest

from gpu_tracker.cuda_probe.probe_session import Probe
from gpu_tracker.errors import ProbeUnavailableError
from support.cuda_stand_in import StandIn, stand_in

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from gpu_tracker.cuda_probe.cuda_report import CudaReport, ProcessReport
    from gpu_tracker.cuda_probe.limits import Limits
    from support.cuda_stand_in import Ran, Running, Truth


class Probed(NamedTuple):
    """What a program did, and what was seen of it."""

    ran: Ran
    report: CudaReport

    @property
    def truth(self) -> Truth:
        """What the first process says."""
        return self.ran.truth

    @property
    def process(self) -> ProcessReport:
        """What was seen of the first process: of its last program, if it was more than one."""
        return [process for process in self.report.processes if process.pid == self.ran.pid][-1]


@contextlib.contextmanager
def opened(
    *, libraries: Sequence[str] = (), limits: Limits | None = None, engine: str | None = None
) -> Iterator[Probe]:
    """Give a probe that is open, and close it; skip if the machine does not let us."""
    probe = Probe(limits, libraries, engine=engine)
    try:
        probe.open()
    except ProbeUnavailableError as error:
        pytest.skip(f'needs {"root" if os.geteuid() else "libbpf, from libbpf1, and the right to use it"}: {error}')
    try:
        yield probe
    finally:
        probe.close()


@contextlib.contextmanager
def probing(
    script: str,
    *,
    fake: StandIn | None = None,
    program: Path | None = None,
    environment: Mapping[str, str] | None = None,
    limits: Limits | None = None,
    engine: str | None = None,
    from_start: bool = True,
    with_driver: bool = True,
) -> Iterator[tuple[Probe, Running]]:
    """Give a probe that follows a program which waits before the first command of ``script``: have it go on.

    :param from_start: Otherwise the program is followed from the first ``wait`` in the script on.
    :param with_driver: Otherwise the driver is attached to when the program loads it.
    """
    fake = fake or stand_in()
    script = f'wait; {script}' if from_start else script
    started = fake.started(script, program=program, environment=environment)
    libraries = [str(fake.runtime), *[str(fake.driver)] * with_driver]
    with opened(libraries=libraries, limits=limits, engine=engine) as probe, started as running:
        running.wait_until_waiting()
        probe.follow(running.pid)
        probe.start()
        yield probe, running


def probed(script: str, **options: object) -> Probed:
    """Perform a script to its end, probed; the options are those of :func:`probing`."""
    with probing(script, **options) as (probe, running):
        running.go_on()
        ran = running.finish()
        probe.close()
        return Probed(ran, probe.report())
