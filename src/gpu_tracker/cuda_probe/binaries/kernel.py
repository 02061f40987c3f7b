"""A kernel as its compiled code describes it."""

from __future__ import annotations

from typing import NamedTuple


class KernelVariant(NamedTuple):
    """A kernel compiled for one SM version; sizes in bytes, None where the code does not tell.

    ``sm`` is the SM version (90 for sm_90) and ``feature`` what follows it (``a`` in sm_90a, ``f`` in sm_100f).
    ``registers`` are those of a thread, ``code_size`` is that of the machine code with its padding, ``static_shared``
    is the shared memory of a block that the source declares, and ``reserved_shared`` what the system adds to it (1024
    from sm_90 on): cuobjdump tells the sum of both, ptxas the first. ``constant`` is the constant memory of the kernel
    itself, its arguments included, ``module_constant`` what the source declares as ``__constant__`` for all kernels of
    the module. ``stack`` is that of a thread.
    """

    sm: int
    feature: str
    registers: int | None
    code_size: int | None
    static_shared: int | None
    reserved_shared: int | None
    constant: int | None
    module_constant: int | None
    stack: int | None


class Kernel(NamedTuple):
    """A kernel: its mangled ``symbol`` in the device code, its ``name`` for people, and each SM version of it."""

    symbol: str
    name: str
    variants: tuple[KernelVariant, ...]
