"""What the statistics daemon for atop costs, and how fast it answers: 8 GPUs, and 500 processes on them."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from benchmarks import simulated_driver
from benchmarks.arithmetic import percentile
from benchmarks.atop_clients import AGAIN, SPREAD, TOGETHER, connected_clients
from benchmarks.peers import OURS
from benchmarks.processes import memory
from benchmarks.results import Gap
from benchmarks.running import fresh_folder
from benchmarks.session import FailedError
from benchmarks.statistics_servers import constant_server, daemon

if TYPE_CHECKING:
    from collections.abc import Sequence
    from contextlib import AbstractContextManager
    from pathlib import Path

    from benchmarks.session import Session
    from benchmarks.statistics_servers import Server, Used

PART = 'atopgpud'
FLOOR = 'asyncio'
"""Who always gives the same answer: ``programs/constant_server.py``."""

_ROUNDS = 3
_GREEDY_ROUNDS = 7
"""Which of two processors a client gets makes much of how fast a single one is answered."""
_SECONDS = 15
_GREEDY_SECONDS = 3
_QUICK_SECONDS = 2
_WARM_UP = 3.5
"""Seconds after a server listens: the daemon has looked at its GPUs some times."""
_QUICK_WARM_UP = 1.2
_GPUS = 8
_PROCESSES = 500
_FIRST_PID = 4_000_000
"""Of the processes on the GPUs, which there need not be: the daemon looks each of them up once."""
_GIBIBYTE = 2**30


@dataclass(frozen=True)
class Load:
    """What a server has to do.

    :ivar clients: How many there are.
    :ivar manner: How they ask, see ``atop_clients``.
    :ivar over_tcp: Where they come: by TCP in version 1 of the protocol, or on the abstract socket in version 2.
    :ivar processes: How many are on the GPUs, together.
    :ivar accounting: Whether the GPUs are in accounting mode.
    :ivar ours_only: Whether nothing is compared: the floor has no GPUs.
    """

    name: str
    clients: int = 0
    manner: str = SPREAD
    over_tcp: bool = False
    processes: int = _PROCESSES
    accounting: bool = False
    ours_only: bool = False
    seconds: int = _SECONDS

    @property
    def version(self) -> int:
        """The version of the protocol in which clients ask."""
        return 1 if self.over_tcp else 2


PACED = (
    Load('no client'),
    Load('1 client', 1),
    Load('10 clients', 10),
    Load('1,000 clients', 1000),
    Load('1,000 clients over TCP', 1000, over_tcp=True),
    Load('10 clients at the same moment', 10, TOGETHER),
    Load('1,000 clients at the same moment', 1000, TOGETHER),
    Load('no client, accounting mode', accounting=True, ours_only=True),
    Load('1,000 clients, accounting mode', 1000, accounting=True, ours_only=True),
    Load('no client, no processes', processes=0, ours_only=True),
)
"""With clients that ask once a second."""
GREEDY = tuple(
    Load(f'{connections}, {way}', number, AGAIN, over_tcp, seconds=_GREEDY_SECONDS)
    for way, over_tcp in (('abstract socket', False), ('TCP', True))
    for number, connections in ((1, '1 connection'), (16, '16 connections'))
)
"""With clients that ask again at once."""


def measure(session: Session, loads: Sequence[Load] = (*PACED, *GREEDY)) -> None:
    """Measure the daemon and the floor under each load, in turn."""
    try:
        module = simulated_driver.load()
        library = simulated_driver.kept_library()
    except (ImportError, FailedError) as error:
        session.results.gaps += [Gap(PART, load.name, OURS.name, str(error)) for load in loads]
        return
    environment = session.environments[OURS.name]
    for usual in loads:
        if not session.wants(usual.name):
            continue
        load = replace(usual, seconds=min(usual.seconds, _QUICK_SECONDS)) if session.quick else usual
        warm_up = _QUICK_WARM_UP if session.quick else _WARM_UP

        def ours(load: Load = load, warm_up: float = warm_up) -> dict[str, float]:
            with fresh_folder() as folder:
                variables = _driver(module, folder, load) | {'LD_LIBRARY_PATH': str(library.parent)}
                return _figures(daemon(environment, variables), load, warm_up)

        def floor(load: Load = load, warm_up: float = warm_up) -> dict[str, float]:
            return _figures(constant_server(environment), load, warm_up)

        measures = {OURS.name: ours} if load.ours_only else {OURS.name: ours, FLOOR: floor}
        rounds = session.rounds(_GREEDY_ROUNDS if load.manner == AGAIN else _ROUNDS)
        session.take_turns(PART, load.name, rounds, measures)


def _figures(started: AbstractContextManager[Server], load: Load, warm_up: float) -> dict[str, float]:
    """Return what a server uses under a load, and how fast it answers."""
    with started as server:
        time.sleep(warm_up)
        figures = _with_clients(server, load) if load.clients else _alone(server, load.seconds)
        held = memory(server.pid)
    if held is None:
        raise FailedError('has ended while clients were there')
    return figures | {'rss': held.resident, 'pss': held.proportional}


def _alone(server: Server, seconds: int) -> dict[str, float]:
    before = server.used()
    time.sleep(seconds)
    return _a_second(before, server.used())


def _with_clients(server: Server, load: Load) -> dict[str, float]:
    address = str(server.port) if load.over_tcp else f'@{server.name}'
    with connected_clients(address, load.version, load.clients, load.seconds, load.manner) as clients:
        before = server.used()
        clients.ask()
        after = server.used()
        asked = clients.asked()
    figures = _a_second(before, after) | {'size': asked.size / asked.answers}
    if load.manner == AGAIN:
        cpu = (after.cpu - before.cpu) / asked.answers
        return figures | {'answers': asked.answers / asked.seconds, 'cpu an answer': cpu}
    return figures | {f'p{percent}': percentile(asked.latencies, percent) for percent in (50, 99)}


def _a_second(before: Used, after: Used) -> dict[str, float]:
    """Return what was used in a second between two moments."""
    seconds = after.when - before.when
    cpu, in_driver = after.cpu - before.cpu, after.driver_cpu - before.driver_cpu
    return {
        'cpu': cpu / seconds,
        'driver cpu': in_driver / seconds,
        'own cpu': (cpu - in_driver) / seconds,
        'driver calls': (after.driver_calls - before.driver_calls) / seconds,
    }


def _driver(module: Any, folder: Path, load: Load) -> dict[str, str]:  # noqa: ANN401 - a module of the tests
    """Write the state of the simulated driver, and return the variables by which the daemon finds it."""
    driver = module.SimulatedDriver(folder)
    driver.write(gpus=[_gpu(module, number, load) for number in range(_GPUS)])
    return {name: value for name, value in driver.environment().items() if name != 'SIMULATED_NVML_LOG'}


def _gpu(module: Any, number: int, load: Load) -> Any:  # noqa: ANN401 - a module of the tests
    """Return a GPU of 80 GiB with its part of the processes, all of which work; some have more memory than others."""
    pids = [_FIRST_PID + place for place in range(number, load.processes, _GPUS)]
    accounts = [module.Account(pid=pid, max_memory=_GIBIBYTE, util=2, memory_util=1, time=9000) for pid in pids]
    return module.Gpu(
        name='NVIDIA H100 80GB HBM3',
        total=80 * _GIBIBYTE,
        used=70 * _GIBIBYTE,
        util=90,
        memory_util=40,
        processes=[module.Process(pid, memory=_GIBIBYTE + pid % 97 * 2**20, sm=2, memory_util=1) for pid in pids],
        accounting=int(load.accounting),
        accounts=accounts if load.accounting else [],
    )
