"""The monitors of a simulated machine's GPUs, in a process of their own that a test asks one thing after the other."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING, Any, Self

from gpu_tracker.gpus.model import Account, Gpu, GpuProcess, GpuReading
from support.gpus.gpu_machine import Machine
from support.gpus.gpu_readings import monitored

if TYPE_CHECKING:
    from pathlib import Path

START = 1000
"""The second since 1970 in which each script begins, so that time stamps are short."""

_PROGRAM = """
import json, sys, threading
import pynvml
from gpu_tracker.gpus.nvidia.backend import NvidiaBackend

def fields(reading):
    return reading._asdict() | {'gpu': None, 'memory_total': reading.memory_total}

now = 0
backend = None
threads = {}

def look_in_thread(number):
    def work():
        threads[number][1] = fields(monitors[number].read(accounts=True))
    thread = threading.Thread(target=work, daemon=True)
    threads[number] = [thread, None]
    thread.start()

for line in sys.stdin:
    command, *words = json.loads(line)
    answer = None
    if command == 'clock':
        now = words[0]
    elif command == 'open':
        if backend is not None:
            backend.close()
        pynvml.nvmlInit()
        backend = NvidiaBackend(lambda: now)
        monitors = backend.monitors()
        answer = len(monitors)
    elif command == 'run_reading':
        uuid, *members = words
        backend.gpus()
        backend.follow(frozenset(members))
        answer = backend.read(uuid).processes
    elif command == 'survey':
        answer = [gpu.processes for gpu in backend.survey()]
    elif command == 'look':
        answer = fields(monitors[words[0]].read(accounts=True))
    elif command == 'identity':
        answer = monitors[words[0]].gpu._asdict()
    elif command == 'keep_accounts':
        answer = monitors[words[0]].keep_accounts()
    elif command == 'start':
        look_in_thread(words[0])
    elif command == 'is_looking':
        answer = threads[words[0]][0].is_alive()
    elif command == 'seen':
        threads[words[0]][0].join()
        answer = threads[words[0]][1]
    print(json.dumps(answer), flush=True)
"""


class Monitors:
    """What ``NvidiaBackend.monitors`` returns on the machine; a context manager that ends the process.

    :param folder: Where the machine's state and log go.
    :param words: What stands before the interpreter.
    :param generation: See SimulatedDriver.
    """

    def __init__(self, folder: Path, *, words: tuple[str, ...] = (), generation: int = 0) -> None:
        machine = Machine(folder, generation)
        self._driver = machine.driver
        self._driver.start = START
        self._process = subprocess.Popen(
            [*words, sys.executable, '-c', _PROGRAM],
            env=machine.environment(),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self._calls_told = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.communicate()

    def write(self, now: float = 0, **state: Any) -> None:
        """Replace the state, as SimulatedDriver.write does, and set the clocks of the driver and of the monitors."""
        self._driver.write(now=now, **state)
        self._ask('clock', START + now)

    def open(self) -> int:
        """Open the driver anew, and return how many monitors there are."""
        count = self._ask('open')
        self.calls()
        return count

    def begin(self, now: float = 0, **state: Any) -> None:
        """Replace the state and open the driver on it."""
        self.write(now, **state)
        self.open()

    def look(self, number: int = 0) -> GpuReading:
        """Return what a monitor's look shows."""
        return _activity(self._ask('look', number))

    def identity(self, number: int = 0) -> Gpu:
        """Return what a monitor knows of its GPU."""
        return Gpu(**self._ask('identity', number))._replace(minor=None)

    def lists(self, number: int = 0) -> tuple[bool, bool]:
        """Return whether there is a list of compute processes, and one of graphics processes."""
        gpu = self.identity(number)
        return gpu.lists_compute, gpu.lists_graphics

    def figures(self, number: int = 0) -> tuple[object, ...]:
        """Return the problem, the two utilizations, and the total and the used memory that a monitor reads."""
        reading = self.look(number)
        utilizations = reading.utilization, reading.memory_utilization
        return reading.problem, *utilizations, reading.memory_total, reading.memory_used

    def occupation(self, number: int = 0) -> tuple[object, ...]:
        """Return the processes, the accounts of ended ones, and what could not be read of them."""
        reading = self.look(number)
        return reading.processes, reading.ended, reading.gap

    def run_reading(self, uuid: str, *members: int) -> list[GpuProcess]:
        """Return the processes of a GPU in a run that tracks these members."""
        return [GpuProcess(*process) for process in self._ask('run_reading', uuid, *members)]

    def survey(self) -> list[list[GpuProcess] | None]:
        """Return the processes of each GPU in a reading of all GPUs."""
        gpus = self._ask('survey')
        return [None if listed is None else [GpuProcess(*process) for process in listed] for listed in gpus]

    def keep_accounts(self, number: int = 0) -> str | None:
        """Return what a monitor says when it is to switch accounting mode on."""
        return self._ask('keep_accounts', number)

    def start_look(self, number: int) -> None:
        """Let a monitor look in a thread of its own."""
        self._ask('start', number)

    def is_looking(self, number: int) -> bool:
        """Tell whether the look that has been started still lasts."""
        return self._ask('is_looking', number)

    def seen(self, number: int) -> GpuReading:
        """Return what the look shows that has been started, as soon as it has ended."""
        return _activity(self._ask('seen', number))

    def calls(self) -> list[str]:
        """Return the driver's functions that have been called since the last time, without their common beginning."""
        calls = self._driver.calls()
        new, self._calls_told = calls[self._calls_told :], len(calls)
        return [name.removeprefix('nvmlDevice') for name in new]

    def _ask(self, *command: object) -> Any:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(command) + '\n')
        self._process.stdin.flush()
        answer = self._process.stdout.readline()
        assert answer, 'the process with the monitors has ended'
        return json.loads(answer)


def idle(pid: int, memory: int | None, *, computes: bool = True, draws: bool = False) -> GpuProcess:
    """Return a process on a GPU whose driver can tell how busy it is."""
    return GpuProcess(pid, memory, computes=computes, draws=draws, utilization=0, memory_utilization=0)


def unknown(pid: int, memory: int | None, **fields: Any) -> GpuProcess:
    """Return a process of which is not known how busy it keeps the GPU, as in MIG mode."""
    return GpuProcess(pid, memory, **fields)


def _activity(fields: dict[str, Any]) -> GpuReading:
    """Return a reading of its plain data; free memory and MIG devices are left out, tests of the survey have them."""
    processes = fields['processes']
    told = {name: value for name, value in fields.items() if name not in {'gpu', 'memory_free', 'mig_devices'}}
    return monitored(
        **told
        | {
            'processes': None if processes is None else tuple(GpuProcess(*process) for process in processes),
            'ended': tuple(Account(*account) for account in fields['ended']),
        }
    )
