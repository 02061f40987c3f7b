"""The rule of a free GPU: nobody computes on it. Why one is not free, and its status in a word."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from gpu_tracker.gpus.model import GpuProcess, GpuReading

_WHOLE = 100
"""Percent: then it does not matter how much memory is in use."""
USED_PERCENT = 20.0
"""Default limit of the memory in use, in percent."""
_BUSY = 5.0
"""Percent: by default, a free GPU has a lower utilization."""
_GIGABYTE = 1e9
_REPORTING = 'nvidia'
"""The vendor whose driver reports the memory of each GPU that has some of its own."""
_DRAWN = 1_000_000_000
"""Bytes that processes may have of a GPU with memory of its own whose driver does not say how much is in use: desktops
take less, and it is 20 % of the memory of small GPUs."""
_AMD = 'amd'
_OPENED = 1_000_000
"""Bytes: a process of ROCm opens all GPUs. On GPUs that it does not use it has only its page tables."""
_DISPLAY_SERVERS = frozenset({'X', 'Xorg', 'Xwayland', 'Hyprland', 'cinnamon', 'cosmic-comp', 'gnome-shell'})
_DISPLAY_SERVERS |= {'kwin_wayland', 'kwin_x11', 'labwc', 'mutter', 'niri', 'plasmashell', 'sway', 'wayfire', 'weston'}
"""Programs that some drivers list as computing."""


class Limits(NamedTuple):
    """The limits within which a GPU is free."""

    max_used_percent: float | None = None
    """Percent of its memory in use; None: 20."""
    max_utilization: float | None = None
    """Percent; None: less than 5, or not reported."""
    min_free: int | None = None
    """Bytes; None: no limit."""
    max_temperature: float | None = None
    """Degrees Celsius, for a MIG device those of its GPU; None: no limit."""
    allow: tuple[str, ...] = ()
    """Programs that may compute on a free GPU, as display servers may."""

    @property
    def by_memory(self) -> bool:
        """Whether the rule is nvgpu's: if the memory in use is known, processes and utilization do not matter."""
        return self.max_used_percent is not None and self.max_utilization is None

    @property
    def used_percent(self) -> float:
        """The limit of the memory in use."""
        return USED_PERCENT if self.max_used_percent is None else self.max_used_percent


UNREADABLE = 'unreadable'
"""Lost, or not to be read by this user."""
SPLIT = 'split'
"""In MIG mode: its MIG devices are free or not, each by itself."""
IN_USE = 'in_use'
CLAIMED = 'claimed'
"""Somebody has claimed it, and nothing else is in the way."""
BEYOND_LIMITS = 'beyond_limits'
"""Not in use, but beyond other limits that were given."""


class Rejection(NamedTuple):
    """Why a GPU is not free."""

    kind: str
    """UNREADABLE, SPLIT, IN_USE, CLAIMED or BEYOND_LIMITS."""
    text: str
    """Empty for a claim, whose words need a clock and the names of users."""
    is_lasting: bool = False
    """Waiting does not help."""


ANY = Limits()


def rejection(gpu: GpuReading, limits: Limits) -> Rejection | None:
    """Return the first thing in the way of choosing a GPU, a claim last of all; None where it can be chosen."""
    checks = (_out_of_reach, _too_full, _computed_on, _too_busy, _too_little_free, _too_hot, _claimed)
    return next((found for check in checks if (found := check(gpu, limits)) is not None), None)


def _out_of_reach(gpu: GpuReading, _: Limits) -> Rejection | None:
    if gpu.problem is not None:
        return Rejection(UNREADABLE, gpu.problem, is_lasting=True)
    if gpu.mig_devices is None:
        return None
    text = 'in MIG mode; its MIG devices are chosen by UUID' if gpu.mig_devices else 'in MIG mode without MIG devices'
    return Rejection(SPLIT, text, is_lasting=True)


def _too_full(gpu: GpuReading, limits: Limits) -> Rejection | None:
    if not gpu.memory_total or gpu.memory_of_others is None:
        return None
    percent = 100 * gpu.memory_of_others / gpu.memory_total
    if percent <= limits.used_percent:
        return None
    return Rejection(IN_USE, f'{percent:.1f} % of its memory is in use; at most {limits.used_percent:g} % may be')


def _computed_on(gpu: GpuReading, limits: Limits) -> Rejection | None:
    is_memory_known = bool(gpu.memory_total) and gpu.memory_of_others is not None
    is_any_memory_fine = is_memory_known or limits.used_percent >= _WHOLE
    if limits.by_memory and is_any_memory_fine:
        return None
    if gpu.lists_failed:
        return Rejection(IN_USE, 'its processes cannot be listed')
    count = len(computing(gpu, limits))
    if count:
        return Rejection(IN_USE, 'a process computes on it' if count == 1 else f'{count} processes compute on it')
    return None if is_any_memory_fine else _maybe_full(gpu)


def computing(gpu: GpuReading, limits: Limits) -> list[GpuProcess]:
    """Return the processes that keep a GPU from being free: not display servers, idle programs and allowed ones."""
    return [
        process
        for process in gpu.processes or ()
        if process.computes
        and (gpu.gpu.vendor != _AMD or process.memory is None or process.memory > _OPENED)
        and not process.is_idle_program
        and not _is_allowed(process, limits)
    ]


def _is_allowed(process: GpuProcess, limits: Limits) -> bool:
    names = {process.program, (process.command or '').partition(' ')[0].rpartition('/')[2]}
    return not names.isdisjoint(_DISPLAY_SERVERS) or not names.isdisjoint(limits.allow)


def _maybe_full(gpu: GpuReading) -> Rejection | None:
    """Return why a GPU may be in use that does not report its memory."""
    if gpu.processes is None:
        return Rejection(IN_USE, 'neither its memory nor its processes are reported', is_lasting=True)
    held = sum(process.memory or 0 for process in gpu.processes if not process.is_idle_program)
    if held > _DRAWN and gpu.gpu.vendor != _REPORTING and not gpu.gpu.is_integrated:
        text = f'its processes have {held / _GIGABYTE:.1f} GB of its memory, and it does not report how much there is'
        return Rejection(IN_USE, text)
    if not gpu.is_list_complete:
        text = 'it does not report its memory, and processes of other users or containers cannot be seen from here'
        return Rejection(IN_USE, text, is_lasting=True)
    return None


def _too_little_free(gpu: GpuReading, limits: Limits) -> Rejection | None:
    if limits.min_free is None:
        return None
    total, free = gpu.memory_total, gpu.memory_free
    if total is None or free is None:
        return Rejection(BEYOND_LIMITS, 'its free memory is not reported', is_lasting=True)
    if gpu.memory_used is not None and gpu.memory_of_others is not None:
        free += gpu.memory_used - gpu.memory_of_others
    if free >= limits.min_free:
        return None
    text = f'{free / _GIGABYTE:.1f} GB of its memory are free; {limits.min_free / _GIGABYTE:g} GB must be'
    return Rejection(BEYOND_LIMITS, text, is_lasting=total < limits.min_free)


def _too_busy(gpu: GpuReading, limits: Limits) -> Rejection | None:
    if limits.by_memory:
        return None
    utilization = 0.0 if gpu.idle_programs else gpu.utilization
    if limits.max_utilization is None:
        if utilization is None or utilization < _BUSY:
            return None
        return Rejection(IN_USE, f'its utilization is {utilization:g} %; a free GPU has less than {_BUSY:g} %')
    if utilization is None:
        return Rejection(BEYOND_LIMITS, 'its utilization is not reported', is_lasting=True)
    if utilization <= limits.max_utilization:
        return None
    return Rejection(
        BEYOND_LIMITS, f'its utilization is {utilization:g} %; at most {limits.max_utilization:g} % may be'
    )


def _too_hot(gpu: GpuReading, limits: Limits) -> Rejection | None:
    if limits.max_temperature is None:
        return None
    temperature = (gpu.parent or gpu).temperature
    if temperature is None:
        return Rejection(BEYOND_LIMITS, 'its temperature is not reported', is_lasting=True)
    if temperature <= limits.max_temperature:
        return None
    return Rejection(BEYOND_LIMITS, f'it has {temperature:g} °C; at most {limits.max_temperature:g} °C may be')


def _claimed(gpu: GpuReading, _: Limits) -> Rejection | None:
    return None if gpu.claim is None else Rejection(CLAIMED, '')


FREE = 'free'
IN_USE_UNSEEN = 'in_use_unseen'
"""In use, by processes that cannot be looked up from here or are not even listed."""
UNKNOWN = 'unknown'
"""Not in use, but the claims could not be read."""


def status_of(gpu: GpuReading) -> str:
    """Return one of FREE, IN_USE, IN_USE_UNSEEN, CLAIMED, UNKNOWN, SPLIT and UNREADABLE."""
    found = rejection(gpu, ANY)
    if found is None:
        return FREE if gpu.is_claim_known else UNKNOWN
    return IN_USE_UNSEEN if found.kind == IN_USE and not _is_use_seen(gpu) else found.kind


def _is_use_seen(gpu: GpuReading) -> bool:
    """Return whether all processes that are listed can be looked up, and nobody else can have much of the memory."""
    if not gpu.processes or not all(process.is_seen for process in gpu.processes):
        return False
    if gpu.memory_used is None and not gpu.is_list_complete:  # what is listed need not be what is in the way
        return any(process.computes for process in gpu.processes)
    sizes = [process.memory for process in gpu.processes if process.memory is not None]
    if len(sizes) < len(gpu.processes) or gpu.memory_used is None or gpu.memory_total is None:
        return True
    return 100 * (gpu.memory_used - sum(sizes)) <= USED_PERCENT * gpu.memory_total
