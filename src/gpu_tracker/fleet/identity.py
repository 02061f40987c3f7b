"""Which GPU is which: a driver that has lost one tells nothing of it but its place."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from gpu_tracker.fleet.gpu import Gpu
    from gpu_tracker.gpus.state import DeviceState


class _Identity(NamedTuple):
    uuid: str
    name: str | None
    pci_bus_id: str | None


class Identities:
    """Remembers the GPUs of one opened driver, in which each keeps its place as long as it stays open.

    MIG devices are not remembered: they are made and removed while the driver stays open.
    """

    def __init__(self) -> None:
        self._known: dict[int, _Identity] = {}
        self._count: int | None = None

    def forget(self) -> None:
        """Remember nothing, since the driver is opened anew."""
        self._known = {}
        self._count = None

    def completed(self, gpus: Sequence[Gpu]) -> list[Gpu]:
        """Return the GPUs of a look, those with a problem as they were called before it.

        Nothing is filled in where a GPU may have another place than before: a wrong name is worse than none.
        """
        told = {gpu.state.number: gpu.state for gpu in gpus}
        if len(told) != self._count or len(told) != len(gpus) or self._has_moved(told):
            self.forget()
        self._count = len(told)
        for number, state in told.items():
            if state.uuid is not None:
                self._known[number] = self._of(state)
        return [gpu._replace(state=self._named(gpu.state)) for gpu in gpus]

    def _has_moved(self, told: Mapping[int, DeviceState]) -> bool:
        """Tell whether a GPU that can be read is in the place of another one."""
        places = {known.uuid: number for number, known in self._known.items()}
        return any(
            state.uuid is not None
            and (places.get(state.uuid, number) != number or (number in self._known and state.uuid not in places))
            for number, state in told.items()
        )

    def _of(self, state: DeviceState) -> _Identity:
        known = self._known.get(state.number)
        name, pci_bus_id = (None, None) if known is None else known[1:]
        return _Identity(state.uuid or '', state.name or name, state.pci_bus_id or pci_bus_id)

    def _named(self, state: DeviceState) -> DeviceState:
        known = self._known.get(state.number)
        if state.problem is None or known is None:
            return state
        return state._replace(
            uuid=state.uuid or known.uuid,
            name=state.name or known.name,
            pci_bus_id=state.pci_bus_id or known.pci_bus_id,
        )
