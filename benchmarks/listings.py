"""The commands that are compared for what GPUs there are and which are free, and what each has to answer."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from benchmarks.peers import GPUSTAT, NVGPU, NVITOP, OURS
from benchmarks.session import FailedError

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from benchmarks.peers import Tool

SHOW = 'what is on all GPUs'
PICK = 'which GPUs are free'
LISTERS: tuple[Tool, ...] = (OURS, GPUSTAT, NVGPU, NVITOP)


@dataclass(frozen=True)
class Machine:
    """What there is to be told.

    :ivar gpus: How many GPUs there are.
    :ivar free: The indices of those on which nothing is.
    :ivar pids: The processes on the others.
    """

    gpus: int
    free: frozenset[int]
    pids: frozenset[int]


@dataclass(frozen=True)
class Command:
    """What is timed.

    :ivar name: As the tables call it.
    :ivar row: The question that it answers.
    :ivar tool: In whose environment it runs.
    :ivar runs: Programs of the environment with their arguments, which run one after the other.
    :ivar check: Raises FailedError where what they have printed is not the answer.
    :ivar competes: False: a floor, or a part of another command.
    """

    name: str
    row: str
    tool: Tool
    runs: tuple[tuple[str, ...], ...]
    check: Callable[[str, Machine], None]
    competes: bool = True


def _expect(condition: bool, complaint: str) -> None:  # noqa: FBT001 - like assert
    if not condition:
        raise FailedError(f'its answer is wrong: {complaint}')


def _expect_pids(answer: str, machine: Machine) -> None:
    told = {int(digits) for digits in re.findall(r'\d+', answer)}
    missing = machine.pids - told
    _expect(not missing, f'{len(missing)} of {len(machine.pids)} processes are not there')


def _expect_indices(told: Collection[str], wanted: Collection[int]) -> None:
    _expect(sorted(told) == sorted(map(str, wanted)), f'GPUs {",".join(told) or "none"}')


def check_json(answer: str, machine: Machine) -> None:
    """Check a JSON object whose ``gpus`` is a list of the GPUs, with the processes somewhere in it."""
    try:
        document: Any = json.loads(answer)
    except ValueError:
        document = None
    gpus = document.get('gpus') if isinstance(document, dict) else None
    _expect(isinstance(gpus, list), 'no GPUs as JSON')
    _expect_indices([str(gpu.get('index')) for gpu in gpus or []], range(machine.gpus))
    _expect_pids(answer, machine)


def check_table(answer: str, machine: Machine) -> None:
    """Check a table with a status a GPU: ``[ ]`` is free, ``[~]`` in use."""
    _expect(answer.count('[ ]') == len(machine.free), f'{answer.count("[ ]")} GPUs are free')
    _expect(answer.count('[~]') == machine.gpus - len(machine.free), f'{answer.count("[~]")} GPUs are in use')
    _expect_pids(answer, machine)


def check_free(answer: str, machine: Machine) -> None:
    """Check the free GPUs' indices, with commas between them, in whatever order."""
    _expect_indices([word for word in answer.strip().split(',') if word], machine.free)


def check_list(answer: str, machine: Machine) -> None:
    """Check that what nvidia-smi -L and nvidia-smi print has all GPUs, and the memory of each."""
    _expect_indices(re.findall(r'^GPU (\d+): .* \(UUID: ', answer, re.MULTILINE), range(machine.gpus))
    _expect(len(re.findall(r'\d+MiB / +\d+MiB', answer)) == machine.gpus, 'not the memory of each GPU')


def check_nothing(answer: str, machine: Machine) -> None:
    """Check that nothing has been printed."""
    del machine
    _expect(not answer, answer.strip())


def _floors(row: str) -> tuple[Command, ...]:
    """Return what each interpreter costs that does nothing, and one that only imports the driver's bindings."""
    statements = {'python -c pass': 'pass', "python -c 'import pynvml'": 'import pynvml'}
    return tuple(
        Command(name, row, OURS, (('python', '-c', statement),), check_nothing, competes=False)
        for name, statement in statements.items()
    )


STAND_IN = 'nvidia-smi -L; nvidia-smi (the stand-in)'
COMMANDS = (
    Command('gpu-tracker gpus --json', SHOW, OURS, (('gpu-tracker', 'gpus', '--json'),), check_json),
    Command('gpustat --json', SHOW, GPUSTAT, (('gpustat', '--json'),), check_json),
    Command('nvgpu list', SHOW, NVGPU, (('nvgpu', 'list'),), check_table),
    *_floors(SHOW),
    Command('gpu-tracker available', PICK, OURS, (('gpu-tracker', 'available'),), check_free),
    Command('nvgpu available', PICK, NVGPU, (('nvgpu', 'available'),), check_free),
    # All that it calls free has the memory that it is asked for; without, it lists all GPUs.
    Command('nvisel', PICK, NVITOP, (('nvisel', '--min-free-memory=64GiB'),), check_free),
    Command(STAND_IN, PICK, NVGPU, (('nvidia-smi', '-L'), ('nvidia-smi',)), check_list, competes=False),
    *_floors(PICK),
)


def commands(row: str) -> list[Command]:
    """Return what is compared for a question, ours first."""
    return [command for command in COMMANDS if command.row == row]
