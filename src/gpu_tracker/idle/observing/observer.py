"""One look at the machine: device files, their holders, what the drivers tell, and terminals, put together."""

from __future__ import annotations

import functools
import os
from typing import TYPE_CHECKING, NamedTuple, Protocol

from gpu_tracker.gpus.nvidia import COMPUTE_FILES
from gpu_tracker.gpus.process_ids import has_open, in_initial_pid_namespace
from gpu_tracker.idle.observation import Observation
from gpu_tracker.idle.observing.devices import find_devices
from gpu_tracker.idle.observing.drivers import DriverLook, Drivers
from gpu_tracker.idle.observing.holders import Holders
from gpu_tracker.idle.observing.layout import lay_out, only_with, without_figures
from gpu_tracker.idle.observing.news import News
from gpu_tracker.idle.observing.programs import Programs
from gpu_tracker.idle.observing.sighting import Sighting, exists
from gpu_tracker.idle.observing.terminals import TerminalUsers
from gpu_tracker.idle.observing.user_names import UserNames

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

    from gpu_tracker.gpus.model import GpuReading
    from gpu_tracker.idle.config.settings import Settings, Terminals
    from gpu_tracker.idle.gpu_id import GpuId
    from gpu_tracker.idle.observation import ActiveUser
    from gpu_tracker.idle.observing.file_identity import Identity
    from gpu_tracker.idle.observing.layout import Place
    from gpu_tracker.idle.observing.sighting import ProcessLookup


_GONE = 'the GPU driver is not loaded any more'
_FEW_FOR_ROOT = 0.1
"""The share of all processes up to which root is not told of those that it cannot look into."""


class HolderLookup(Protocol):
    """Tells who holds device files open."""

    @property
    def unseen(self) -> Collection[int]:
        """The processes at the last look whose descriptors may not be read."""

    @property
    def count(self) -> int:
        """How many processes there were at the last look."""

    def look(self, identities: Mapping[int, Identity]) -> Mapping[int, frozenset[int]]:
        """Return the processes that hold each device file open, by its number."""


class DriverLookup(Protocol):
    """Tells what the drivers tell."""

    async def look(self) -> DriverLook:
        """Look at all GPUs."""

    def open_anew(self) -> None:
        """Have the drivers opened anew: there may be another GPU."""

    async def close(self) -> None:
        """Let go of the drivers."""


class Inputs(NamedTuple):
    """What an observer looks with."""

    nodes: Callable[[], Mapping[int, Identity]]
    """Returns the device files ``nvidiaN`` by N."""
    holders: HolderLookup
    programs: ProcessLookup
    terminals: Callable[[Terminals], tuple[ActiveUser, ...]]
    """Returns who works at terminals."""
    drivers: DriverLookup
    is_meant: Callable[[int], bool] | None = None
    """In a container with process IDs of its own: whether the driver means the process that has an ID here. None: the
    driver's IDs are those of this program."""
    exists: Callable[[int], bool] = exists
    """Whether there is a process of an ID."""
    is_root: bool = False
    """Whether this program is root's."""


class Observer:
    """Looks at the machine.

    :param inputs: What it looks with.
    """

    def __init__(self, inputs: Inputs) -> None:
        self._inputs = inputs
        self._news = News()
        self._layout: tuple[GpuReading, ...] | None = None
        """What the driver has told last of where GPUs are, which numbers go by as long as it tells nothing."""
        self._nodes: frozenset[int] | None = None
        self._identities: dict[GpuId, str] = {}

    @property
    def nodes(self) -> frozenset[int]:
        """The numbers of the device files that the last look has found."""
        return self._nodes or frozenset()

    @property
    def identities(self) -> Mapping[GpuId, str]:
        """What each watched GPU of the last look is known by for all programs of this machine."""
        return self._identities

    async def look(self, settings: Settings, is_ours: Callable[[int], bool]) -> Observation:
        """Look once.

        The driver is asked first, so that what is read without waiting is not old when it is returned.

        :param settings: Which GPUs are watched, and how.
        :param is_ours: Tells whether a process belongs to our programs.
        """
        inputs = self._inputs
        nodes = inputs.nodes()
        self._look_for_new_gpus(nodes)
        answer = await inputs.drivers.look()
        gpus = self._gpus(answer)
        holders = inputs.holders.look(nodes)
        places = lay_out(nodes, gpus)
        watched = [(place, section) for place in places if (section := settings.section_of(place.gpu)) is not None]
        self._identities = {place.gpu: _identity(place, nodes) for place, _ in watched}
        sighting = Sighting(inputs.programs, is_ours, inputs.exists, is_certain=inputs.is_meant is None)
        seen = []
        for place, section in watched:
            held_by = frozenset() if place.node is None else holders.get(place.node, frozenset())
            problem = self._silence(answer, has_node=place.node in nodes)
            seen.append(sighting.see(place, section, held_by, problem))
        self._tell(answer)
        if not answer.is_awaited:  # there may be others than is known yet
            self._news.tell_of_gpus({place.gpu for place in places}, {gpu.gpu for gpu in seen})
        return Observation(tuple(seen), inputs.terminals(settings.terminals) if settings.terminals else ())

    def take_messages(self) -> list[str]:
        """Return what is to be told and was not taken yet, each thing once."""
        return self._news.take()

    async def close(self) -> None:
        """Let go of the drivers."""
        await self._inputs.drivers.close()

    def _look_for_new_gpus(self, nodes: Collection[int]) -> None:
        """Have the driver opened anew where there is another device file: one that is open knows no GPU added later."""
        known = {gpu.gpu.minor for gpu in self._layout or ()}
        if self._nodes is not None and not self._nodes.union(known).issuperset(nodes):
            self._inputs.drivers.open_anew()
        self._nodes = frozenset(nodes)

    def _gpus(self, answer: DriverLook) -> tuple[GpuReading, ...] | None:
        """Return what is known of all GPUs, at least their places; None where no driver has told of any."""
        if answer.gpus is None:
            return self._layout
        self._layout = tuple(map(without_figures, answer.gpus))
        is_meant = self._inputs.is_meant
        if is_meant is None:
            return answer.gpus
        asked_once = functools.cache(is_meant)
        return tuple(only_with(asked_once, gpu) for gpu in answer.gpus)

    def _silence(self, answer: DriverLook, *, has_node: bool) -> str | None:
        """Return why a GPU cannot be used, of which the driver tells nothing; None where it can.

        What can be seen without the driver is who holds its device file.
        """
        if answer.gpus is not None:
            return None
        if self._layout is None:  # numbers may be others than those of the device files
            return f'is not known yet: {answer.problem}' if answer.is_awaited else None
        if answer.problem is None:
            return 'cannot be used: its driver is not loaded any more'
        return None if has_node else f'cannot be seen: {answer.problem}'

    def _tell(self, answer: DriverLook) -> None:
        if self._inputs.is_meant is not None:
            self._news.tell_of_container()
        self._tell_of_unseen(answer)
        is_gone = answer == DriverLook() and self._layout is not None
        self._news.tell_of_driver(_GONE if is_gone else answer.problem)

    def _tell_of_unseen(self, answer: DriverLook) -> None:
        holders, is_root = self._inputs.holders, self._inputs.is_root
        # Root may read all but a few that have more rights than it has here, as what has started a virtual machine.
        if len(holders.unseen) > (holders.count * _FEW_FOR_ROOT if is_root else 0):
            self._news.tell_of_unseen(holders.unseen, is_root=is_root, has_driver=answer != DriverLook())


def _identity(place: Place, nodes: Mapping[int, Identity]) -> str:
    """Return what a GPU is known by: its device file is the same for all users; a UUID may be known to some only."""
    part = '' if place.gpu.mig is None else f':{place.gpu.mig}'
    node = None if place.node is None else nodes.get(place.node)
    if node is not None:
        return f'{node}{part}'
    return f'{place.gpu}' if place.state is None or place.state.uuid is None else place.state.uuid


def open_observer(
    devices: str = '/dev',
    *,
    programs: ProcessLookup | None = None,
    drivers: DriverLookup | None = None,
    name_of: Callable[[int], str] | None = None,
) -> Observer:
    """Return what looks at this machine.

    :param devices: The folder of the device files of GPUs.
    :param programs: What tells of processes, where somebody else asks it too.
    :param drivers: The drivers, opened at the first look; None: all.
    :param name_of: Tells at once the name of the user with an ID, or the ID as text; None: :class:`UserNames`.
    """
    name_of = UserNames().name if name_of is None else name_of
    is_certain = in_initial_pid_namespace()
    return Observer(
        Inputs(
            nodes=functools.partial(find_devices, devices),
            holders=Holders(),
            programs=Programs(name_of=name_of) if programs is None else programs,
            terminals=TerminalUsers(name_of=name_of).active,
            drivers=Drivers() if drivers is None else drivers,
            is_meant=None if is_certain else lambda pid: has_open(pid, COMPUTE_FILES),
            is_root=os.geteuid() == 0,
        )
    )
