"""What a GPU is called in a configuration file."""

from __future__ import annotations

from typing import NamedTuple


class GpuId(NamedTuple):
    """A GPU, or a MIG device of one. Written ``5``, or ``5:1`` for the second MIG device of GPU 5."""

    number: int
    """The GPU's place in PCI bus order, from 0, as nvidia-smi numbers them."""
    mig: int | None = None
    """The MIG device's number on its GPU, from 0; None for a whole GPU."""

    def __str__(self) -> str:
        """Return it as it is written."""
        return str(self.number) if self.mig is None else f'{self.number}:{self.mig}'
