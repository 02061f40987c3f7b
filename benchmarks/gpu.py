"""What a sample of GPUs costs, on the simulated driver of the tests: 1 process on 2 GPUs."""

from __future__ import annotations

import contextlib
import os
import signal
import time
import uuid
from typing import TYPE_CHECKING, Any

from benchmarks import simulated_driver
from benchmarks.peers import OURS, Run
from benchmarks.results import Gap
from benchmarks.running import (
    PROGRAMS,
    Workload,
    fresh_folder,
    output_of,
    per_sample,
    sample_cost,
    started,
    wait_for_end,
    wait_until_ready,
    watch,
)

if TYPE_CHECKING:
    from pathlib import Path

    from benchmarks.environments import Environment
    from benchmarks.peers import Peer
    from benchmarks.session import Session

PART = 'gpu'
ON_GPUS = '1 process on 2 GPUs'
WITHOUT = '1 process, no GPU driver'
INTERVAL = 0.1

_ROUNDS = 3
_WARM_UP = 1.5
_WORKLOAD = Workload(ON_GPUS, 'memory', 50)
_GIBIBYTE = 2**30


def measure(session: Session) -> None:
    """Measure those that read GPUs."""
    try:
        simulated_nvml = simulated_driver.load()
    except ImportError as error:
        session.results.gaps += [Gap(PART, ON_GPUS, peer.name, f'{error} (pytest)') for peer in session.peers]
        return

    def on_gpus(peer: Peer, environment: Environment) -> dict[str, float]:
        with fresh_folder() as folder:
            return _cost(peer, environment, folder, _Driver(simulated_nvml, folder))

    def without(peer: Peer, environment: Environment) -> dict[str, float]:
        return sample_cost(peer, environment, _WORKLOAD, INTERVAL, _WARM_UP)

    session.alternate(PART, ON_GPUS, session.rounds(_ROUNDS), 'gpu', on_gpus)
    session.alternate(PART, WITHOUT, session.rounds(_ROUNDS), 'gpu', without, only=(OURS,))


class _Driver:
    """The simulated driver, without its log of calls."""

    def __init__(self, simulated_nvml: Any, folder: Path) -> None:  # noqa: ANN401 - a module of the tests
        self._module = simulated_nvml
        self._driver = simulated_nvml.SimulatedDriver(folder)
        self.run_on_gpus([])

    def run_on_gpus(self, pids: list[int]) -> None:
        processes = [self._module.Process(pid, memory=_GIBIBYTE, sm=30) for pid in pids]
        gpu = self._module.Gpu(total=8 * _GIBIBYTE, used=2 * _GIBIBYTE, util=40, processes=processes)
        self._driver.write(gpus=[gpu, gpu])

    def environment(self) -> dict[str, str]:
        return {name: value for name, value in self._driver.environment().items() if name != 'SIMULATED_NVML_LOG'}


def _cost(peer: Peer, environment: Environment, folder: Path, driver: _Driver) -> dict[str, float]:
    """Return what sampling the workload on the GPUs costs; nvitop runs beside it, in a program of its own."""
    mark = uuid.uuid4().hex
    ready = folder / 'ready'
    run = Run(_WORKLOAD.words(ready), INTERVAL, folder)
    variables = environment.variables(**driver.environment())
    words = peer.command(environment, run) if peer is OURS else run.program
    with started(words, folder, variables, mark if peer is OURS else uuid.uuid4().hex) as command:
        root = wait_until_ready(ready, command, folder)
        driver.run_on_gpus([root])
        try:
            if peer is OURS:
                time.sleep(_WARM_UP)
                costs = watch(mark, _WORKLOAD.window)
            else:
                costs = _beside(environment, root, folder, variables, mark)
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.kill(root, signal.SIGTERM)
        wait_for_end(command)
    if peer is OURS:
        return costs | per_sample(costs, peer.report(run, output_of(folder)).period or INTERVAL)
    return costs | per_sample(costs, float((folder / 'period').read_text()))


def _beside(environment: Environment, pid: int, folder: Path, variables: dict[str, str], mark: str) -> dict[str, float]:
    own = folder / 'nvitop'
    own.mkdir()
    program = str(PROGRAMS / 'nvitop_collector.py')
    words = [environment.python, program, str(pid), f'{INTERVAL:g}', str(folder / 'period')]
    with started(words, own, variables, mark) as command:
        time.sleep(2 * _WARM_UP)
        try:
            costs = watch(mark, _WORKLOAD.window)
        finally:
            command.send_signal(signal.SIGTERM)
        wait_for_end(command)
    return costs
