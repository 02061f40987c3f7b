"""NVML's result codes in words for people (numbers from nvml.h)."""

from __future__ import annotations

from gpu_tracker.errors import see

_FAILS = see('driver-fails')
_LOST = see('gpu-lost')
_PERMISSION = see('driver-permission')

LISTS, SAMPLES = 'lists', 'samples'
"""Parts of a reading that may fail."""

_CAUSES = {
    4: 'no-permission',
    10: 'timeout',
    12: 'no-library',
    13: 'driver-too-old',
    15: 'gpu-lost',
    16: 'gpu-needs-reset',
    17: 'blocked-by-system',
    18: 'version-mismatch',
    20: 'out-of-memory',
    999: 'unknown-error',
}

DRIVER_TOO_OLD = (
    'This machine has an NVIDIA driver too old for a call that gpu-tracker needs (NVML code 13); some figures are '
    f'unknown. {see("driver-too-old")}'
)

_PROBLEMS = {
    4: 'may not be read by this user (NVML code 4)',
    6: 'no longer known to the driver (NVML code 6)',
    15: 'lost: fallen off the bus or otherwise out of reach (NVML code 15)',
    16: 'needs a reset before it can be used again (NVML code 16)',
    999: 'cannot be read: unknown error of the NVIDIA driver (NVML code 999)',
}

_NO_ACCOUNTS = {
    3: 'this GPU does not support accounting mode (NVML code 3)',
    4: 'needs root (NVML code 4)',
}

_INIT_PROBLEMS = {
    4: (
        'This user may not use the NVIDIA driver (NVML code 4). GPU figures are unknown until the user may open '
        f'/dev/nvidiactl and /dev/nvidia0. {_PERMISSION}'
    ),
    15: (
        'The NVIDIA driver has lost a GPU: the GPU is no longer on the bus, or does not respond (NVML code 15). '
        f'GPU figures are unknown until the machine is restarted. {_LOST}'
    ),
    17: (
        'The operating system blocks the NVIDIA driver for this process (NVML code 17), for example because a '
        f'container or job was given no GPU. GPU figures are unknown. {_PERMISSION}'
    ),
    18: (
        'The NVIDIA driver and its library have different versions (NVML code 18), as after an update without a '
        'restart. GPU figures are unknown until you reload the driver or restart the machine. '
        f'{see("driver-mismatch")}'
    ),
    999: (
        'The NVIDIA driver could not be initialized: it reports an unknown error (NVML code 999), as after a suspend '
        f'or a crash of the driver. GPU figures are unknown. {_FAILS}'
    ),
}


def describe(gpus: str, code: int, part: str = '', *, are_many: bool = False) -> str:
    """Return a message about GPUs whose calls were answered with a code.

    :param part: ``LISTS`` or ``SAMPLES``, which fail; empty: nothing of the GPUs can be read.
    """
    if code == 13:  # noqa: PLR2004 - see _CAUSES
        return DRIVER_TOO_OLD
    its = 'their' if are_many else 'its'
    texts = {
        '': f'{problem_of(code)}. {its.capitalize()} figures are unknown.',
        LISTS: f'{its} processes cannot be listed (NVML code {code}). The GPU RAM of this run is unknown.',
        SAMPLES: f'{its} utilization by process cannot be read (NVML code {code}). Own utilization is unknown.',
    }
    return f'{gpus}: {texts[part]} {({4: _PERMISSION, 15: _LOST, 16: _LOST}).get(code, _FAILS)}'


def problem_of(code: int) -> str:
    """Return what is wrong with a GPU that answers with a code, in words that follow its name and a colon."""
    return _PROBLEMS.get(code, f'cannot be read (NVML code {code})')


def why_no_accounts(code: int) -> str:
    """Return why accounting mode could not be switched on by a call that was answered with a code."""
    return _NO_ACCOUNTS.get(code, f'the driver refused to switch on accounting mode (NVML code {code})')


def explain_foreign_pynvml(path: str | None) -> tuple[str, str]:
    """Return a sentence on another package's pynvml, found at a path, and the short name of the cause."""
    text = (
        f"The Python package 'pynvml' ({path}) hides nvidia-ml-py, with which gpu-tracker reads NVIDIA GPUs: both "
        'packages have the import name pynvml. GPU figures are unknown until you run "pip uninstall pynvml" and then '
        '"pip install --force-reinstall nvidia-ml-py".'
    )
    return text, 'foreign-pynvml'


def explain_missing_library() -> tuple[str, str]:
    """Return a sentence on GPUs that programs can use and nobody can read, and the short name of the cause."""
    text = (
        "NVIDIA's kernel module and devices are here, but the driver's library libnvidia-ml.so.1 is missing. GPU "
        'figures are unknown. In a container, use docker run --gpus all '
        "-e NVIDIA_DRIVER_CAPABILITIES=compute,utility. On a machine, install the driver's package. "
        f'{see("driver-library")}'
    )
    return text, _CAUSES[12]


def explain_failed_init(code: int) -> tuple[str, str]:
    """Return a sentence on a driver that could not be opened, and the short name of the cause."""
    other = f'The NVIDIA driver could not be initialized (NVML code {code}). GPU figures are unknown. {_FAILS}'
    return _INIT_PROBLEMS.get(code, other), _CAUSES.get(code, f'nvml-{code}')
