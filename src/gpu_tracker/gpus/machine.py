"""One reading of this machine: its GPUs with the claims on them and what was wrong, also as plain data."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING, NamedTuple

from gpu_tracker.background import Changes
from gpu_tracker.errors import ClaimsError, GpuError
from gpu_tracker.gpus.claims.folder import ClaimFolder
from gpu_tracker.gpus.command_lines import FULL, PROGRAM, without_arguments
from gpu_tracker.gpus.constraints import status_of
from gpu_tracker.gpus.health import activity_as_json, health_as_json
from gpu_tracker.gpus.inventory import with_claims
from gpu_tracker.system.users import user_name

if TYPE_CHECKING:
    from collections.abc import Callable

    from gpu_tracker.gpus.claim import Claim
    from gpu_tracker.gpus.inventory import Inventory
    from gpu_tracker.gpus.model import GpuProcess, GpuReading


class Seen(NamedTuple):
    """One reading of the machine, and what was wrong with it."""

    time: float
    """When it began, in seconds since 1970: others find the error of this machine's clock by it and by its age."""
    gpus: list[GpuReading] | None
    """None: not known."""
    driver_problem: str | None = None
    """Why the GPUs are not known."""
    claims_problem: str | None = None
    """Why the claims on them are not known."""


class Machine:
    """What is read again and again; what is wrong is reported when it changes.

    :param report: Called with a text for people.
    :param inventory: The GPUs.
    :param clock: Monotonic seconds.
    :raises gpu_tracker.errors.ParameterError: The environment variable ``GPU_TRACKER_CLAIMS`` is no absolute path.
    """

    def __init__(
        self, report: Callable[[str], None], inventory: Inventory, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._inventory = inventory
        self._claims = ClaimFolder()
        self._driver_changes = Changes(report, 'the GPUs can be read again', clock)
        self._claims_changes = Changes(report, 'claims are known again', clock)

    def read(self) -> Seen:
        """Read the GPUs and the claims.

        :raises GpuError: A driver is there and does not work, or does not answer.
        """
        now = time.time()
        gpus = self._inventory.read()
        try:
            seen = Seen(now, with_claims(gpus, self._claims.claims()))
        except ClaimsError as error:
            self._claims_changes.note(f'claims are not known: {error}')
            return Seen(now, with_claims(gpus, None), claims_problem=str(error))
        self._claims_changes.note(None)
        return seen

    def read_again(self) -> Seen:
        """Read like ``read``; if no driver works, the reading says why, and a later one may succeed."""
        now = time.time()
        try:
            seen = self.read()
        except GpuError as error:
            self.report(str(error))
            return Seen(now, None, driver_problem=str(error))
        if seen.gpus:
            self.report(None)
        return seen

    def absence(self, seen: Seen) -> str | None:
        """Return in words why a reading has found no GPU; None where it has found one, or where that is not known."""
        if seen.gpus is None or seen.gpus:
            return None
        if self._inventory.has_driver:
            return 'this machine has a GPU driver and no GPU'
        from gpu_tracker.gpus.absence import why_no_driver  # noqa: PLC0415 - only where there is none

        return why_no_driver()

    def report(self, problem: str | None) -> None:
        """Report why the last reading has shown no GPU, where that was not reported yet; None: it has shown one."""
        self._driver_changes.note(problem)


def host_name() -> str:
    """Return the name by which this machine knows itself."""
    return (os.uname().nodename if hasattr(os, 'uname') else os.environ.get('COMPUTERNAME', '')) or 'localhost'


def snapshot(
    seen: Seen,
    commands: str = FULL,
    *,
    hostname: str | None = None,
    user_name: Callable[[int], str] = user_name,
) -> dict[str, object]:
    """Return what ``json.dumps`` takes: ``hostname``, ``time`` in seconds since 1970, and ``gpus``.

    The page "GPUs of this machine" of the documentation has all keys. Of a GPU with MIG devices ``processes`` has those
    on them too, once for each.

    :param commands: How much the reader may know of command lines: with ``program``, ``command`` has the names of
        program and script alone and ``program`` one of them; with ``none``, both are null.
    :param hostname: None: this machine's.
    :param user_name: Returns the name of the user with an ID.
    """
    return {
        'hostname': host_name() if hostname is None else hostname,
        'time': seen.time,
        'driver_problem': seen.driver_problem,
        'claims_problem': seen.claims_problem,
        'gpus': None if seen.gpus is None else [_gpu(gpu, user_name, commands) for gpu in seen.gpus],
    }


def _gpu(gpu: GpuReading, user_name: Callable[[int], str], commands: str) -> dict[str, object]:
    return {
        'index': gpu.number,
        'vendor': gpu.gpu.vendor,
        'uuid': gpu.uuid,
        'pci_bus_id': gpu.gpu.pci_bus_id,
        'type': gpu.name,
        'status': status_of(gpu),
        'problem': gpu.problem,
        'utilization_percent': gpu.utilization,
        'memory_total_bytes': gpu.memory_total,
        'memory_used_bytes': gpu.memory_used,
        'memory_free_bytes': gpu.memory_free,
        'temperature_celsius': gpu.temperature,
        'sm_clock_hertz': gpu.sm_clock,
        'power_watts': gpu.power,
        'power_limit_watts': gpu.power_limit,
        'health': None if gpu.health is None else health_as_json(gpu.health),
        'activity': None if gpu.activity is None else activity_as_json(gpu.activity),
        'processes': None if gpu.processes is None else [_process(process, commands) for process in gpu.processes],
        'claim': None if gpu.claim is None else _claim(gpu.claim, user_name, commands),
        'mig_devices': None
        if gpu.mig_devices is None
        else [_gpu(part, user_name, commands) for part in gpu.mig_devices],
    }


def _process(process: GpuProcess, commands: str) -> dict[str, object]:
    command, program = _visible(process.command, process.program, commands)
    return {
        'pid': process.pid,
        'user': process.user,
        'command': command,
        'program': program,
        'started': process.started,
        'memory_bytes': process.memory,
        'utilization_percent': process.utilization,
        'computes': process.computes,
    }


def _claim(claim: Claim, user_name: Callable[[int], str], commands: str) -> dict[str, object]:
    return {
        'user': user_name(claim.user_id),
        'user_id': claim.user_id,
        'pid': claim.process_id,
        'in_another_container': claim.in_another_container,
        'made': claim.made,
        'expires': claim.expires,
        'command': _visible(claim.command, None, commands)[0],
    }


def _visible(command: str | None, program: str | None, commands: str) -> tuple[str | None, str | None]:
    """Return as much of a command line, and of what it is about, as the reader may know."""
    if commands == FULL or command is None:
        return command, program
    return without_arguments(command) if commands == PROGRAM else (None, None)
