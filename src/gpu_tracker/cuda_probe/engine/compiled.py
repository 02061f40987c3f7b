"""The BPF object for this machine, compiled when the wheel was built."""

from __future__ import annotations

from importlib import resources

from gpu_tracker.cuda_probe.engine.system_calls import MACHINE, is_supported
from gpu_tracker.errors import ProbeUnavailableError


def read_object() -> bytes:
    """Return the object file.

    :raises gpu_tracker.errors.ProbeUnavailableError: There is none for this machine.
    """
    if not is_supported():
        raise ProbeUnavailableError(
            f'CUDA calls cannot be probed: the probe is made for x86-64 and aarch64, and this machine is {MACHINE}.'
        )
    file = resources.files('gpu_tracker.cuda_probe') / 'bpf' / f'probe_{MACHINE}.bpf.o'
    try:
        return file.read_bytes()
    except FileNotFoundError:
        raise ProbeUnavailableError(
            'CUDA calls cannot be probed: this installation of gpu-tracker was built without clang and has no probe; '
            'install clang and build it anew.'
        ) from None
