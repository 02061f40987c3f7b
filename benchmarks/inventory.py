"""How long it takes to show all GPUs and to pick the free ones: 8 GPUs, and 200 processes on 6 of them."""

from __future__ import annotations

import contextlib
import functools
import os
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks import simulated_driver
from benchmarks.compiling import compiled
from benchmarks.listings import PICK, SHOW, STAND_IN, Machine, commands
from benchmarks.peers import NVGPU
from benchmarks.results import Gap
from benchmarks.running import fresh_folder
from benchmarks.session import FailedError
from benchmarks.timing import timed

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from benchmarks.listings import Command
    from benchmarks.session import Session

PART = 'inventory'

_ROUNDS = 20
_QUICK_ROUNDS = 3
_LONGEST = 60
"""Seconds that a command may take."""
_GPUS = 8
_FREE = (2, 5)
_PROCESSES = 200
_LIFE = 1800
"""Seconds after which the processes end, whatever becomes of those who started them."""
_GIBIBYTE = 2**30
_LOG = 'SIMULATED_NVML_LOG'
_NARROWING = ('CUDA_VISIBLE_DEVICES', 'CUDA_DEVICE_ORDER')
"""Variables by which commands see fewer GPUs, or in another order."""
_STAND_IN = Path(__file__).resolve().parent / 'nvidia_smi.c'


@dataclass(frozen=True)
class _Place:
    """Where commands run.

    :ivar driver: The ``SimulatedDriver`` of the tests.
    :ivar library: The driver's library.
    :ivar stand_in: The program ``nvidia-smi``.
    :ivar folder: For what commands print.
    """

    machine: Machine
    driver: Any
    library: Path
    stand_in: Path
    folder: Path


def measure(session: Session) -> None:
    """Measure both questions on one simulated machine."""
    try:
        module = simulated_driver.load()
        library = simulated_driver.full_library()
        stand_in = compiled('nvidia-smi', [_STAND_IN], ['-ldl'])
    except (ImportError, FailedError) as error:
        session.results.gaps += [Gap(PART, row, c.name, str(error)) for row in (SHOW, PICK) for c in commands(row)]
        return
    with fresh_folder() as folder, _sleeping(_PROCESSES) as pids:
        driver = module.SimulatedDriver(folder)
        driver.write(gpus=_gpus(module, pids))
        place = _Place(Machine(_GPUS, frozenset(_FREE), frozenset(pids)), driver, library, stand_in, folder)
        for row in (SHOW, PICK):
            _measure_row(session, row, place)


def _measure_row(session: Session, row: str, place: _Place) -> None:
    """Look at what each command answers and what it asks the driver; then time those that answer rightly."""
    present = {command.name: command for command in commands(row) if command.tool.name in session.environments}
    looks = {name: functools.partial(_look, session, command, place) for name, command in present.items()}
    able = session.take_turns(PART, row, 1, looks)
    runs = {name: functools.partial(_run, session, present[name], place) for name in able}
    session.take_turns(PART, row, session.rounds(_ROUNDS, _QUICK_ROUNDS), runs)


def _look(session: Session, command: Command, place: _Place) -> dict[str, float]:
    """Run a command for the first time, and return how many calls of the driver it makes."""
    place.driver.log_file.unlink(missing_ok=True)
    _run(session, command, place, logged=True)
    return {'driver calls': len(place.driver.calls())}


def _run(session: Session, command: Command, place: _Place, *, logged: bool = False) -> dict[str, float]:
    """Run a command, and return its times where its answer is right."""
    environment = session.environments[command.tool.name]
    simulated = place.driver.environment() | {'LD_LIBRARY_PATH': str(place.library.parent)}
    variables = environment.variables(**simulated)
    if command.tool is NVGPU:
        variables['PATH'] = f'{place.stand_in.parent}{os.pathsep}{variables["PATH"]}'
    for name in (*_NARROWING, *(() if logged else (_LOG,))):
        variables.pop(name, None)
    done = []
    for program, *arguments in command.runs:
        path = str(place.stand_in) if command.name == STAND_IN else environment.program(program)
        done.append(timed([path, *arguments], place.folder, variables, _LONGEST))
    command.check(''.join(run.output for run in done), place.machine)
    return {'seconds': sum(run.seconds for run in done), 'cpu': sum(run.cpu for run in done)}


def _gpus(module: Any, pids: Sequence[int]) -> list[Any]:  # noqa: ANN401 - a module of the tests
    """Return GPUs of 80 GiB that know all figures; each process has 1 GiB of one of those that are in use."""
    in_use = [index for index in range(_GPUS) if index not in _FREE]
    gpus = []
    for index in range(_GPUS):
        own = pids[in_use.index(index) :: len(in_use)] if index in in_use else []
        processes = [module.Process(pid, memory=_GIBIBYTE, sm=2) for pid in own]
        busy = len(processes) > 0
        gpus.append(
            module.Gpu(
                total=80 * _GIBIBYTE,
                used=(len(processes) or 1) * _GIBIBYTE,
                util=70 if busy else 0,
                memory_util=30 if busy else 0,
                encoder=0,
                decoder=0,
                bar1_total=_GIBIBYTE,
                bar1_used=0,
                temperature=60 if busy else 30,
                temperature_limit=90,
                power=400_000 if busy else 70_000,
                power_limit=700_000,
                energy=10**9,
                fan=30,
                graphics_clock=1400,
                sm_clock=1400,
                memory_clock=2600,
                video_clock=1200,
                max_graphics_clock=1980,
                max_sm_clock=1980,
                max_memory_clock=2600,
                max_video_clock=1500,
                persistence=1,
                performance_state=0,
                compute_mode=0,
                processes=processes,
            )
        )
    return gpus


@contextlib.contextmanager
def _sleeping(number: int) -> Iterator[list[int]]:
    """Start processes that sleep; they are there to be looked up."""
    processes: list[subprocess.Popen[bytes]] = []
    try:
        while len(processes) < number:
            processes.append(subprocess.Popen(['sleep', str(_LIFE)], stdin=subprocess.DEVNULL))
        yield [process.pid for process in processes]
    finally:
        for process in processes:
            process.kill()
        for process in processes:
            process.wait()
