"""What a GPU is, in plain data: what does not change while it works, and no sample of a run asks for."""

from __future__ import annotations

from typing import NamedTuple


class DeviceDetails(NamedTuple):
    """A GPU, or a MIG device of one; None is what the driver does not tell."""

    number: int
    """A GPU's place in PCI bus order, from 0; a MIG device's number on its GPU."""
    uuid: str | None = None
    """None where the driver knows of the GPU and cannot open it."""
    name: str | None = None
    driver: str | None = None
    """The driver's version."""
    minor: int | None = None
    """The N of its device node ``/dev/nvidiaN``; None as well for a MIG device."""
    memory: int | None = None
    """Bytes; None as well where the GPU has no memory of its own."""
    cores: int | None = None
    """CUDA cores: how many threads execute at the same time."""
    gpu_instance: int | None = None
    """The ID of the GPU instance of a MIG device."""
    compute_instance: int | None = None
    """The ID of the compute instance of a MIG device."""
    mig_devices: tuple[DeviceDetails, ...] | None = None
    """None: not in MIG mode. A GPU in MIG mode cannot be used whole."""
