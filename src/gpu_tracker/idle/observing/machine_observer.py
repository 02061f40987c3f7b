"""The observer: one poll of device files, the processes that have them open, the driver and terminals, put together."""

from __future__ import annotations

import functools
import os
from typing import TYPE_CHECKING, NamedTuple

from gpu_tracker.background import Reported
from gpu_tracker.errors import ClaimsError
from gpu_tracker.gpus.claims.folder import ClaimFolder
from gpu_tracker.gpus.nvidia import COMPUTE_FILES
from gpu_tracker.gpus.process_ids import has_open, in_initial_pid_namespace
from gpu_tracker.idle.observing.device_files import find_devices
from gpu_tracker.idle.observing.driver import Driver, DriverAnswer
from gpu_tracker.idle.observing.gpu_processes import Programs
from gpu_tracker.idle.observing.open_devices import OpenDevices
from gpu_tracker.idle.observing.terminals import TerminalUsers
from gpu_tracker.idle.observing.watched_gpus import GpuPoll, only_with, usable_gpus, without_figures
from gpu_tracker.idle.state import Observation
from gpu_tracker.processes import process_exists
from gpu_tracker.system.users import UserNames

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from gpu_tracker.gpus.claim import Claim
    from gpu_tracker.gpus.model import GpuReading
    from gpu_tracker.idle.config.idle_settings import GpuId, Settings, Terminals
    from gpu_tracker.idle.observing.device_files import Identity
    from gpu_tracker.idle.observing.watched_gpus import UsableGpu
    from gpu_tracker.idle.state import ActiveUser

_GONE = 'the GPU driver is not loaded any more'
_FEW_FOR_ROOT = 0.1
"""The share of all processes up to which root gets no message about those that it cannot read."""


class Inputs(NamedTuple):
    """What an observer polls with."""

    nodes: Callable[[], Mapping[int, Identity]]
    """Returns the device files ``nvidiaN`` by N."""
    open_devices: OpenDevices
    programs: Programs
    terminals: Callable[[Terminals], tuple[ActiveUser, ...]]
    """Returns who works at terminals."""
    driver: Driver
    is_meant: Callable[[int], bool] | None = None
    """In a container with process IDs of its own: whether the driver means the process that has an ID here. None: the
    driver's IDs are those of this program."""
    exists: Callable[[int], bool] = process_exists
    """Whether there is a process of an ID."""
    is_root: bool = False
    """Whether this program is root's."""
    claims: Callable[[], Sequence[Claim]] = tuple
    """Returns the claims on GPUs that hold."""
    name_of: Callable[[int], str] = str
    """Returns at once the name of the user with an ID."""


class Observer:
    """Looks at the machine.

    :param inputs: What it polls with.
    """

    def __init__(self, inputs: Inputs) -> None:
        self._inputs = inputs
        self._messages = ObserverMessages()
        self._layout: tuple[GpuReading, ...] | None = None
        """What the driver has reported last of where GPUs are, which numbers go by as long as it tells nothing."""
        self._nodes: frozenset[int] | None = None
        self._identities: dict[GpuId, str] = {}

    @property
    def nodes(self) -> frozenset[int]:
        """The numbers of the device files that the last poll has found."""
        return self._nodes or frozenset()

    @property
    def identities(self) -> Mapping[GpuId, str]:
        """What each watched GPU of the last poll is known by for all programs of this machine."""
        return self._identities

    async def poll(self, settings: Settings, is_ours: Callable[[int], bool]) -> Observation:
        """Poll once.

        The driver is asked first, so that what is read without waiting is not old when it is returned.

        :param settings: Which GPUs are watched, and how.
        :param is_ours: Returns whether a process belongs to our programs.
        """
        inputs = self._inputs
        nodes = inputs.nodes()
        self._check_for_new_gpus(nodes)
        answer = await inputs.driver.poll()
        gpus = self._gpus(answer)
        openers = inputs.open_devices.poll(nodes)
        usable = usable_gpus(nodes, gpus)
        watched = [(gpu, section) for gpu in usable if (section := settings.section_of(gpu.gpu)) is not None]
        self._identities = {gpu.gpu: _identity(gpu, nodes) for gpu, _ in watched}
        gpu_poll = GpuPoll(inputs.programs, is_ours, inputs.exists, is_certain=inputs.is_meant is None)
        claims = self._claims()
        seen = []
        for gpu, section in watched:
            held_by = frozenset() if gpu.node is None else openers.get(gpu.node, frozenset())
            problem = self._why_unusable(answer, has_node=gpu.node in nodes)
            shown = gpu_poll.observe(gpu, section, held_by, problem)
            seen.append(shown._replace(claim=self._claim_on(shown.uuid, claims, is_ours)))
        self._report(answer)
        if not answer.is_awaited:  # there may be others than is known yet
            self._messages.report_gpus({gpu.gpu for gpu in usable}, {gpu.gpu for gpu in seen})
        return Observation(tuple(seen), inputs.terminals(settings.terminals) if settings.terminals else ())

    def take_messages(self) -> list[str]:
        """Return the messages that were not taken yet, each thing once."""
        return self._messages.take()

    async def close(self) -> None:
        """Let go of the driver."""
        await self._inputs.driver.close()

    def _check_for_new_gpus(self, nodes: Collection[int]) -> None:
        """Have the driver opened anew where there is another device file: one that is open knows no GPU added later."""
        known = {gpu.gpu.minor for gpu in self._layout or ()}
        if self._nodes is not None and not self._nodes.union(known).issuperset(nodes):
            self._inputs.driver.open_anew()
        self._nodes = frozenset(nodes)

    def _gpus(self, answer: DriverAnswer) -> tuple[GpuReading, ...] | None:
        """Return what is known of all GPUs, at least their usable; None where no driver has reported any."""
        if answer.gpus is None:
            return self._layout
        self._layout = tuple(map(without_figures, answer.gpus))
        is_meant = self._inputs.is_meant
        if is_meant is None:
            return answer.gpus
        asked_once = functools.cache(is_meant)
        return tuple(only_with(asked_once, gpu) for gpu in answer.gpus)

    def _claims(self) -> Sequence[Claim]:
        """Return the claims on GPUs; none where they cannot be read, as nobody can claim any then."""
        try:
            claims = self._inputs.claims()
        except ClaimsError as error:
            self._messages.report_claims(str(error))
            return ()
        self._messages.report_claims(None)
        return claims

    def _claim_on(self, uuid: str | None, claims: Sequence[Claim], is_ours: Callable[[int], bool]) -> str | None:
        """Return in words who has claimed a GPU, unless it is a program of ours."""
        for claim in claims:
            if uuid in claim.uuids:
                pid = None if claim.in_another_container else claim.process_id
                if pid is None or not is_ours(pid):
                    who = self._inputs.name_of(claim.user_id)
                    return f'claimed by {who}' + ('' if pid is None else f' (pid {pid})')
        return None

    def _why_unusable(self, answer: DriverAnswer, *, has_node: bool) -> str | None:
        """Return why a GPU cannot be used, of which the driver reports nothing; None where it can.

        What can be seen without the driver is who holds its device file.
        """
        if answer.gpus is not None:
            return None
        if self._layout is None:  # numbers may be others than those of the device files
            return f'is not known yet: {answer.problem}' if answer.is_awaited else None
        if answer.problem is None:
            return 'cannot be used: its driver is not loaded any more'
        return None if has_node else f'cannot be seen: {answer.problem}'

    def _report(self, answer: DriverAnswer) -> None:
        if self._inputs.is_meant is not None:
            self._messages.report_container()
        self._report_unseen(answer)
        is_gone = answer == DriverAnswer() and self._layout is not None
        self._messages.report_driver(_GONE if is_gone else answer.problem)

    def _report_unseen(self, answer: DriverAnswer) -> None:
        open_devices, is_root = self._inputs.open_devices, self._inputs.is_root
        has_driver = answer != DriverAnswer()
        if open_devices.are_others_hidden:
            self._messages.report_hidden(has_driver=has_driver)
        # Root may read all but a few that have more rights than it has here, as what has started a virtual machine.
        if len(open_devices.unseen) > (open_devices.count * _FEW_FOR_ROOT if is_root else 0):
            self._messages.report_unseen(open_devices.unseen, is_root=is_root, has_driver=has_driver)


def _identity(gpu: UsableGpu, nodes: Mapping[int, Identity]) -> str:
    """Return what a GPU is known by: its device file is the same for all users; a UUID may be known to some only."""
    part = '' if gpu.gpu.mig is None else f':{gpu.gpu.mig}'
    node = None if gpu.node is None else nodes.get(gpu.node)
    if node is not None:
        return f'{node}{part}'
    return f'{gpu.gpu}' if gpu.state is None or gpu.state.uuid is None else gpu.state.uuid


def open_observer(
    devices: str = '/dev',
    *,
    programs: Programs | None = None,
    driver: Driver | None = None,
    name_of: Callable[[int], str] | None = None,
) -> Observer:
    """Return the observer of this machine.

    :param devices: The folder of the device files of GPUs.
    :param programs: Lookup of processes, where somebody else asks it too.
    :param driver: The driver, opened at the first poll; None: that of this machine.
    :param name_of: Returns at once the name of the user with an ID, or the ID as text; None: :class:`UserNames`.
    """
    name_of = UserNames().name if name_of is None else name_of
    is_certain = in_initial_pid_namespace()
    return Observer(
        Inputs(
            nodes=functools.partial(find_devices, devices),
            open_devices=OpenDevices(),
            programs=Programs(name_of=name_of) if programs is None else programs,
            terminals=TerminalUsers(name_of=name_of).active,
            driver=Driver() if driver is None else driver,
            is_meant=None if is_certain else lambda pid: has_open(pid, COMPUTE_FILES),
            is_root=os.geteuid() == 0,
            claims=ClaimFolder().claims,
            name_of=name_of,
        )
    )


_MOST_NAMED = 3
_NO_GPU = 'there is no GPU at the moment'
_NONE_WATCHED = 'none of the GPUs that are watched is there at the moment'
_HIDDEN = '/proc hides the processes of other users (mount option hidepid)'
_WITH_DRIVER = 'only the GPU driver tells what is used there'
_WITHOUT_DRIVER = 'no use of a GPU is seen there'
_IN_CONTAINER = (
    'in this container, which has process IDs of its own, processes outside it cannot be seen: they make a GPU busy '
    'only by its memory and utilization, where thresholds are set for them'
)


class ObserverMessages:
    """Messages for the log: each thing once, and its end."""

    def __init__(self) -> None:
        self._messages: list[str] = []
        self._reported = Reported(self._messages.append)
        self._problem: str | None = None
        self._claims_problem: str | None = None
        self._gpus: frozenset[GpuId] | None = None
        self._watched: frozenset[GpuId] = frozenset()
        self._lack: str | None = None

    def take(self) -> list[str]:
        """Return what was not taken yet."""
        messages = self._messages.copy()
        self._messages.clear()
        return messages

    def report_container(self) -> None:
        """Report that this is a container with process IDs of its own."""
        self._reported.once('container', _IN_CONTAINER)

    def report_unseen(self, pids: Collection[int], *, is_root: bool, has_driver: bool) -> None:
        """Report that there are processes whose descriptors cannot be read, the first time only.

        :param pids: Which ones; they are named where they are few.
        :param is_root: Whether this is root, whom containers and services may deny the right.
        :param has_driver: Whether a driver reports who uses GPUs.
        """
        what = f'{len(pids)} processes'
        if len(pids) <= _MOST_NAMED:
            what = f'process{"" if len(pids) == 1 else "es"} {", ".join(map(str, sorted(pids)))}'
        why = 'cannot be read, even by root here' if is_root else 'can be read by root only'
        self._reported.once(
            'unseen', f'the descriptors of {what} {why}: {_WITH_DRIVER if has_driver else _WITHOUT_DRIVER}'
        )

    def report_hidden(self, *, has_driver: bool) -> None:
        """Report that /proc does not list the processes of other users, the first time only.

        :param has_driver: Whether a driver reports who uses GPUs.
        """
        self._reported.once('hidden', f'{_HIDDEN}: {_WITH_DRIVER if has_driver else _WITHOUT_DRIVER}')

    def report_driver(self, problem: str | None) -> None:
        """Report of a problem of the driver when it begins, and when it has ended."""
        if problem != self._problem:
            self._messages.append('the GPU driver works again' if problem is None else problem)
        self._problem = problem

    def report_claims(self, problem: str | None) -> None:
        """Report why claims on GPUs cannot be read when that begins, and when it has ended."""
        if problem != self._claims_problem:
            self._messages.append('claims on GPUs are known again' if problem is None else problem)
        self._claims_problem = problem

    def report_gpus(self, there: Collection[GpuId], watched: Collection[GpuId]) -> None:
        """Report which of the watched GPUs have come or gone, and where there is none.

        :param there: All GPUs.
        :param watched: Those of them that are watched, which a new configuration may change without any being gone.
        """
        gpus = frozenset(there)
        if self._gpus is not None:
            gone = sorted(self._watched - gpus, key=_place)
            appeared = sorted(frozenset(watched) - self._gpus, key=_place)
            self._messages += [f'GPU {gpu} has gone' for gpu in gone] + [f'GPU {gpu} has appeared' for gpu in appeared]
        lack = None if watched else _NONE_WATCHED if there else _NO_GPU
        if lack is not None and lack != self._lack:
            self._messages.append(lack)
        self._gpus, self._watched, self._lack = gpus, frozenset(watched), lack


def _place(gpu: GpuId) -> tuple[int, int]:
    return gpu.number, -1 if gpu.mig is None else gpu.mig
