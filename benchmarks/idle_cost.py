"""What watching costs: a machine with 2,000 processes and 8 GPUs, looked at each second."""

from __future__ import annotations

import functools
import os
import struct
import time
import uuid
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from benchmarks import simulated_driver
from benchmarks.idle_monitors import (
    configuration,
    fuser_monitor,
    make_devices_of_nobody,
    monitor,
    nothing_left,
    other_processes,
    with_mark,
)
from benchmarks.idle_watchers import SCAN, watcher
from benchmarks.peers import FUSER, OURS
from benchmarks.processes import cpu_seconds, marked, memory, peak_memory
from benchmarks.results import Gap
from benchmarks.running import fresh_folder
from benchmarks.session import FailedError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from benchmarks.environments import Environment
    from benchmarks.session import Session

FUSER_EACH, SCAN_EACH = 'fuser', 'all descriptors'

_GPUS = 8
_INTERVAL = 1
_WORKING = 100
_ROUNDS = 3
_QUICK_WINDOW = 3
_LONGEST_START = 60.0
_PAUSE = 0.05
_CLOCK = struct.Struct('QQ')
_NANO = 1e-9
_GIBIBYTE = 2**30
_ROLES = {'gput-guardian': 'guardians', 'gput-sampler': 'samplers'}
_SLEEP = ('sleep', 'infinity')


@dataclass(frozen=True)
class Scene:
    """What there is to be watched.

    :ivar working: How many of the processes do a little every 0.1 s; the others sleep.
    :ivar programs: How many the monitor has started.
    :ivar driver: Whether there is the simulated driver; otherwise only device nodes.
    :ivar as_nobody: Whether the monitor is the user nobody's, who may not see into the processes.
    :ivar ours_only: Whether peers are left out, to which this scene is as another one.
    :ivar window: Seconds in which is measured.
    :ivar warm_up: Seconds before that, from when all runs: the first look reads all processes, and samplers start.
    """

    name: str
    processes: int = 2000
    working: int = 0
    programs: int = 0
    driver: bool = False
    as_nobody: bool = False
    ours_only: bool = True
    window: float = 20
    warm_up: float = 3


SCENES = (
    Scene('nothing runs', ours_only=False),
    Scene('8 programs run', programs=8),
    Scene('nothing runs, 100 processes work', working=_WORKING, ours_only=False),
    Scene('8 programs run, 100 processes work', working=_WORKING, programs=8),
    Scene('nothing runs, with a driver', driver=True),
    Scene('8 programs run, with a driver', programs=8, driver=True),
    Scene("nothing runs, another user's processes", as_nobody=True),
)


def measure(session: Session, part: str, scenes: Sequence[Scene]) -> None:
    """Measure all that watch in each scene, in turn."""
    environment = session.environments[OURS.name]
    for usual in scenes:
        if not session.wants(usual.name):
            continue
        scene = replace(usual, window=min(usual.window, _QUICK_WINDOW)) if session.quick else usual
        if scene.as_nobody and os.geteuid() != 0:
            session.results.gaps.append(Gap(part, scene.name, OURS.name, 'only root can run programs of other users'))
            continue
        measures: dict[str, Callable[[], dict[str, float]]] = {OURS.name: functools.partial(_ours, environment, scene)}
        if not scene.ours_only:
            if FUSER.name in session.environments:
                measures[FUSER_EACH] = functools.partial(_fuser, environment, scene)
            measures[SCAN_EACH] = functools.partial(_scan, environment, scene)
        try:
            with other_processes(scene.processes - scene.working, scene.working):
                session.take_turns(part, scene.name, session.rounds(_ROUNDS), measures)
        except FailedError as error:
            session.results.gaps += [Gap(part, scene.name, who, str(error)) for who in measures]


def _ours(environment: Environment, scene: Scene) -> dict[str, float]:
    mark, programs_mark = uuid.uuid4().hex, uuid.uuid4().hex
    with fresh_folder() as folder, nothing_left(programs_mark):
        make_devices_of_nobody(folder, _GPUS)
        text = configuration(_INTERVAL, [with_mark(programs_mark, *_SLEEP)] * scene.programs)
        clock = folder / 'driver-clock'
        clock.write_bytes(_CLOCK.pack(0, 0))
        variables = _driver(folder) | {'BENCHMARK_DRIVER_CLOCK': str(clock)} if scene.driver else {}
        with monitor(environment, folder, text, mark, variables, as_nobody=scene.as_nobody) as pid:
            _wait_until_running(pid, folder, programs_mark, scene.programs)
            time.sleep(scene.warm_up)
            roles = {one: 'monitor' if one == pid else _role(one) for one in marked(mark)}
            before = _CLOCK.unpack(clock.read_bytes())
            figures = _used(roles, scene.window) | _peaks(roles)
            after = _CLOCK.unpack(clock.read_bytes())
            in_driver = {'driver': (after[0] - before[0]) * _NANO / scene.window}
            return figures | (in_driver if scene.driver else {})


def _wait_until_running(pid: int, folder: Path, mark: str, programs: int) -> None:
    """Return when the monitor watches and its programs run."""
    deadline = time.monotonic() + _LONGEST_START
    while time.monotonic() < deadline:
        if (folder / 'idle.sock').exists() and len(marked(mark)) == programs:
            return
        if cpu_seconds(pid) is None or _role(pid) == '':
            break
        time.sleep(_PAUSE)
    said = (folder / 'output').read_text(errors='replace').strip().splitlines() or ['it does not begin']
    raise FailedError(said[-1])


def _fuser(environment: Environment, scene: Scene) -> dict[str, float]:
    mark = uuid.uuid4().hex
    with fresh_folder() as folder:
        devices = make_devices_of_nobody(folder, _GPUS)
        with fuser_monitor(environment, folder, _INTERVAL, devices, [], mark) as pid:
            time.sleep(scene.warm_up)
            return _used({pid: 'monitor'}, scene.window)


def _scan(environment: Environment, scene: Scene) -> dict[str, float]:
    with fresh_folder() as folder:
        devices = make_devices_of_nobody(folder, _GPUS)
        with watcher(environment, SCAN, devices, interval=_INTERVAL) as watching:
            time.sleep(scene.warm_up)
            return _used({watching.pid: 'monitor'}, scene.window)


def _role(pid: int) -> str:
    """Return what a process of the monitor is; nothing where it has ended."""
    try:
        with open(f'/proc/{pid}/comm', encoding='utf-8', errors='replace') as file:
            name = file.read().rstrip('\n')
    except OSError:
        return ''
    return _ROLES.get(name, 'others')


def _used(roles: Mapping[int, str], window: float) -> dict[str, float]:
    """Return the CPU seconds a second of each role, and how many processes there are on this machine."""
    before = {pid: cpu_seconds(pid) for pid in roles}
    begun = time.monotonic()
    time.sleep(window)
    after = {pid: cpu_seconds(pid) for pid in roles}
    seconds = time.monotonic() - begun
    used: dict[str, float] = {}
    for pid, role in roles.items():
        then, now = before[pid], after[pid]
        if then is not None and now is not None:
            used[role] = used.get(role, 0.0) + (now - then) / seconds
    if 'monitor' not in used:
        raise FailedError('has ended meanwhile')
    count = sum(name.isdecimal() for name in os.listdir('/proc'))
    return used | {'cpu': sum(used.values()), 'processes': float(count)}


def _peaks(roles: Mapping[int, str]) -> dict[str, float]:
    """Return the largest peak and the largest PSS of the processes of each role."""
    figures: dict[str, float] = {}
    for pid, role in roles.items():
        peak, held = peak_memory(pid), memory(pid)
        if peak is not None and held is not None:
            figures[f'{role}: peak'] = max(figures.get(f'{role}: peak', 0.0), peak)
            figures[f'{role}: pss'] = max(figures.get(f'{role}: pss', 0.0), held.proportional)
    return figures


def _driver(folder: Path) -> dict[str, str]:
    """Write the state of the simulated driver, and return the variables by which it is found.

    :raises FailedError: where it cannot be compiled.
    """
    try:
        module = simulated_driver.load()
    except ImportError as error:
        raise FailedError(str(error)) from error
    driver = module.SimulatedDriver(folder)
    driver.write(gpus=[module.Gpu(total=80 * _GIBIBYTE, used=_GIBIBYTE, util=0) for _ in range(_GPUS)])
    variables = {name: value for name, value in driver.environment().items() if name != 'SIMULATED_NVML_LOG'}
    return variables | {'LD_LIBRARY_PATH': str(simulated_driver.kept_library().parent)}
