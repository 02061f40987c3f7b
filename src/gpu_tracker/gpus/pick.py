"""The picker of GPUs: it reads, chooses, claims and waits, the last two where asked to."""

from __future__ import annotations

import shlex
import time
from typing import TYPE_CHECKING, NamedTuple

from gpu_tracker.errors import ClaimsLockedError, GpusUnavailableError
from gpu_tracker.gpus.claims.folder import LOCK_TIMEOUT
from gpu_tracker.gpus.constraints import IN_USE, Rejection, computing, rejection
from gpu_tracker.gpus.inventory import with_claims
from gpu_tracker.gpus.selection import Choice, choose

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from gpu_tracker.errors import GpuTrackerError
    from gpu_tracker.gpus.claim import Claim
    from gpu_tracker.gpus.claims.folder import ClaimFolder, HeldClaim
    from gpu_tracker.gpus.inventory import Inventory
    from gpu_tracker.gpus.model import GpuReading
    from gpu_tracker.gpus.request import Request

PAUSE = 1.0
"""Seconds between two readings while waiting."""

FRESH = 1.0
"""Seconds: how old a reading of the GPUs may be when they are claimed."""


LEAVING_TIMEOUT = 120.0
"""Seconds that idle programs have at most to leave GPUs that were claimed, by somebody who waits."""
LEAVING_TIMEOUT_UNASKED = 30.0
"""The same in all where waiting is not wanted: what an idle monitor and its program take, with a margin. It notes a
claim within 10 s and gives a program 5 s, unless told otherwise."""


class Terms(NamedTuple):
    """What a claim is held by: a process and, where given, a time."""

    process_id: int
    seconds: float | None
    command: str | None
    survives_exec: bool = False
    """Whether the process goes on holding it when it becomes another program."""


def purpose(words: Sequence[str]) -> str | None:
    """Return the command line that GPUs are claimed for."""
    return shlex.join(words) or None


class Waiting(NamedTuple):
    """How to wait until the request can be met.

    :ivar seconds: At most so long; None: for ever.
    :ivar report: Called once, when waiting begins, with the reason.
    """

    seconds: float | None
    report: Callable[[GpuTrackerError], None] = lambda _: None


class Picked(NamedTuple):
    """GPUs that meet a request, and all GPUs that there are."""

    chosen: list[GpuReading]
    gpus: list[GpuReading]

    @property
    def uncounted(self) -> str:
        """The GPUs that CUDA may not count, so that others have lower indices there: they cannot be read.

        Empty where none of them comes before one that was chosen.
        """
        highest: dict[str, int] = {}
        for gpu in self.chosen:
            highest[gpu.gpu.vendor] = max((gpu.parent or gpu).number, highest.get(gpu.gpu.vendor, 0))
        return ', '.join(gpu.label for gpu in self.gpus if gpu.problem and gpu.number < highest.get(gpu.gpu.vendor, 0))


class Picker:
    """Picks GPUs of a machine, and holds the claim on them.

    :param inventory: Reads the GPUs.
    :param folder: The claims of all users.
    :param clock: Seconds, for deadlines.
    :param report: Takes a line for people where idle programs have to leave first.
    """

    def __init__(
        self,
        inventory: Inventory,
        folder: ClaimFolder,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
        report: Callable[[str], None] = lambda _: None,
    ) -> None:
        self._inventory = inventory
        self._folder = folder
        self._clock = clock
        self._sleep = sleep
        self._report = report
        self._deadline: float | None = None
        self._leaving_deadline: float | None = None
        self._refused: dict[str, Rejection] = {}
        """By UUID: GPUs whose idle programs do not leave."""
        self.held: HeldClaim | None = None

    def pick(self, request: Request, terms: Terms | None = None, waiting: Waiting | None = None) -> Picked:
        """Pick GPUs as the request says, claiming them on the terms given.

        GPUs that only programs of an idle monitor use are free. A claim makes these leave, and this returns when they
        have left; where they do not, other GPUs are tried. Nothing stays claimed where this raises.

        Where this is called again, the time to wait goes on from the first call.

        :raises GpusUnavailableError: Too few are free, and waiting is not wanted, does not help, or took too long.
        :raises GpuError: A driver does not work.
        :raises ClaimsError: The claims cannot be read or written, or are locked and waiting is not wanted.
        """
        if self._deadline is None and waiting is not None and waiting.seconds is not None:
            self._deadline = self._clock() + waiting.seconds
        deadline = None if waiting is None else self._deadline
        has_told = False
        known: Choice | None = None
        while True:
            blocked: Choice | ClaimsLockedError | None
            try:
                picked, blocked = self._try(request, terms, deadline)
            except ClaimsLockedError as error:
                picked, blocked = None, error
            if picked is not None:
                if terms is None or self._have_left(picked, request, self._leaving_end(waiting)):
                    return picked
                continue
            if blocked is None:
                continue
            known = blocked if isinstance(blocked, Choice) else known
            left = PAUSE if deadline is None else deadline - self._clock()
            may_help = not isinstance(blocked, Choice) or blocked.is_possible
            if waiting is None or not may_help:
                raise _error(blocked)
            if left <= 0:
                raise _in_vain(known or blocked)
            if not has_told:
                waiting.report(_error(blocked))
                has_told = True
            self._sleep(min(PAUSE, left))

    def release(self) -> None:
        """Give back what has been claimed, if anything."""
        if self.held is not None:
            self.held.release()
            self.held = None

    def _try(
        self, request: Request, terms: Terms | None, deadline: float | None
    ) -> tuple[Picked | None, Choice | None]:
        """Look and choose; with terms, record the claim under the lock under which those of others were read.

        Returns no choice where what was chosen has been taken meanwhile: there is to be another reading.
        """
        began = self._clock()
        # A claim for a time may end between the reading and the choice, when its job has only just taken the memory,
        # after the reading. So what was claimed before the reading is not chosen either.
        earlier = self._folder.claims()
        gpus = self._read(request, earlier)
        if terms is None:
            choice = self._choose(gpus, [*self._folder.claims(), *earlier], request)
            return (Picked(choice.chosen, gpus) if choice.is_enough else None), choice
        made: list[Choice] = []

        def decide(claims: Sequence[Claim]) -> list[str]:
            made.append(self._choose(gpus, [*claims, *earlier], request))
            return made[-1].uuids if made[-1].is_enough else []

        try:
            self.held = self._folder.claim(
                decide,
                process_id=terms.process_id,
                seconds=terms.seconds,
                command=terms.command,
                survives_exec=terms.survives_exec,
                lock_timeout=None if deadline is None else min(LOCK_TIMEOUT, deadline - self._clock()),
            )
        except ClaimsLockedError:
            choice = self._choose(gpus, earlier, request)
            if choice.is_enough:
                raise
            return None, choice  # the lock would not have helped
        choice = made[-1]
        if self.held is None:
            return None, choice
        # An idle program may be ending already, for this claim: pick waits until it has left, and reads its GPU then.
        others = {gpu.uuid for gpu in choice.chosen if not gpu.idle_programs}
        try:
            is_still_free = not others or self._clock() - began <= FRESH or self._are_still_free(others, request)
        except BaseException:
            self.release()
            raise
        if is_still_free:
            return Picked(choice.chosen, gpus), choice
        self.release()
        return None, None

    def _choose(self, gpus: Sequence[GpuReading], claims: Sequence[Claim], request: Request) -> Choice:
        return choose(with_claims(gpus, claims), request, self._refused)

    def _read(self, request: Request, claims: Sequence[Claim]) -> list[GpuReading]:
        """Read all GPUs; their processes too where GPUs are in use and not enough are free without these."""
        gpus = self._inventory.read(with_load=request.needs_load, with_sensors=request.needs_sensors)
        if not request.needs_load:
            choice = choose(with_claims(gpus, claims), request)
            most = request.exactly or request.at_most
            if (most is None or len(choice.chosen) < most) and choice.may_yield:
                return self._inventory.read(with_load=True, with_sensors=False)
        return gpus

    def _leaving_end(self, waiting: Waiting | None) -> float:
        """Return until when idle programs have time to leave."""
        now = self._clock()
        if waiting is None:
            if self._leaving_deadline is None:
                self._leaving_deadline = now + LEAVING_TIMEOUT_UNASKED
            return self._leaving_deadline
        return now + LEAVING_TIMEOUT if self._deadline is None else min(now + LEAVING_TIMEOUT, self._deadline)

    def _have_left(self, picked: Picked, request: Request, end: float) -> bool:
        """Wait until no idle program is on the GPUs that were claimed; False: they are given back, and not free."""
        if not any(gpu.idle_programs for gpu in picked.chosen):
            return True
        uuids = {gpu.uuid for gpu in picked.chosen}
        yielding = {gpu.uuid for gpu in picked.chosen if gpu.idle_programs}
        labels = ', '.join(gpu.label for gpu in picked.chosen if gpu.idle_programs)
        self._report(f'waiting until the idle program on {labels} has left')
        try:
            while True:
                occupied = self._occupied(uuids, request)
                is_taken = any(_is_taken(gpu, yielding, request) for gpu in occupied)
                if not occupied or is_taken or self._clock() >= end:
                    break
                self._sleep(min(PAUSE, end - self._clock()))
        except BaseException:
            self.release()
            raise
        if not occupied:
            return True
        self.release()
        if not is_taken:
            refusal = Rejection(IN_USE, 'an idle program was on it and has not left')
            self._refused |= {gpu.uuid: refusal for gpu in occupied if gpu.uuid is not None}
        return False

    def _occupied(self, uuids: set[str | None], request: Request) -> list[GpuReading]:
        gpus = self._inventory.read(with_load=True, with_sensors=request.needs_sensors)
        devices = [device for gpu in gpus for device in gpu.devices()]
        return [
            gpu
            for gpu in devices
            if gpu.uuid in uuids and (gpu.idle_programs or rejection(gpu, request.limits) is not None)
        ]

    def _are_still_free(self, uuids: set[str | None], request: Request) -> bool:
        """Read again, after the first reading or the lock took long: what was free may have been taken meanwhile."""
        gpus = self._read(request, [])
        return uuids <= set(choose(gpus, request._replace(exactly=None, at_most=None)).uuids)


def _is_taken(gpu: GpuReading, yielding: set[str | None], request: Request) -> bool:
    """Return whether somebody else uses a GPU that was claimed.

    :param yielding: The GPUs that had an idle program. While it ends, it may be listed as one that cannot be looked up.
    """
    if rejection(gpu, request.limits) is None:
        return False
    if gpu.uuid not in yielding and not gpu.idle_programs:
        return True
    return any(process.is_seen for process in computing(gpu, request.limits))


def _in_vain(blocked: Choice | ClaimsLockedError) -> GpuTrackerError:
    """Return what says why nothing could be claimed in the time given."""
    if isinstance(blocked, Choice):
        return _error(blocked)
    return GpusUnavailableError('no GPU could be claimed in time', [str(blocked)])


def _error(blocked: Choice | ClaimsLockedError) -> GpuTrackerError:
    """Return what says why there is nothing yet; users' names are looked up for it, so not at each reading."""
    return blocked.error(time.time()) if isinstance(blocked, Choice) else blocked
