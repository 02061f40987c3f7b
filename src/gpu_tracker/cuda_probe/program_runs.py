"""Program runs, with what is known of them beside their calls: command line, GPUs, names of kernels.

All of it is read when it loads CUDA, or first calls it: it may have ended when somebody asks.
"""

from __future__ import annotations

import os
from collections import OrderedDict
from typing import TYPE_CHECKING, TypeVar

from gpu_tracker.control_groups.places import groups_of
from gpu_tracker.cuda_probe.binaries.demangling import demangle
from gpu_tracker.cuda_probe.binaries.kernel_names import KernelAt, KernelNames
from gpu_tracker.cuda_probe.devices import environment
from gpu_tracker.cuda_probe.devices.access import AccessReader
from gpu_tracker.cuda_probe.devices.control_groups import accounting_group
from gpu_tracker.cuda_probe.devices.enumeration import Visibility
from gpu_tracker.cuda_probe.devices.environment import EnvironmentChange
from gpu_tracker.cuda_probe.devices.host_gpus import HostGpus
from gpu_tracker.cuda_probe.kernel_data import UNKNOWN_DEVICE

if TYPE_CHECKING:
    from gpu_tracker.cuda_probe.binaries.cache import BinaryCache
    from gpu_tracker.cuda_probe.devices.host_gpus import PhysicalGpu
    from gpu_tracker.cuda_probe.engine.kernel_layout import Notice

Kept = TypeVar('Kept')

_MOST_REMEMBERED = 16_384
"""Program runs that may never call CUDA."""
_MOST_IMAGES = 1_024
_MOST_ANCESTORS = 8
_MOST_HANDLES = 65_536
_LONGEST_COMMAND = 4_096


class ProgramImage:
    """What is read of a program while its process lives.

    :param parent: That of the process which has forked it: it has the same command line and addresses, should it have
        ended before they were read.
    """

    def __init__(self, pid: int, cache: BinaryCache, parent: ProgramImage | None, proc: str) -> None:
        self.command: str | None = _command_line(pid, proc)
        if self.command is None and parent is not None:
            self.command = parent.command
        self.control_group: str | None = _control_group(pid, proc)
        if self.control_group is None and parent is not None:
            self.control_group = parent.control_group
        self.variables = environment.initial_variables(pid, proc)
        """Those that it was started with."""
        self.access = AccessReader(pid, proc)
        self.names_of_ancestors: tuple[KernelNames, ...] = ()
        if parent is not None:
            self.names_of_ancestors = (parent.names, *parent.names_of_ancestors)[:_MOST_ANCESTORS]
        self.names: KernelNames = KernelNames(pid, cache, proc)
        self.has_unread_kernels = False
        """Whether there was a kernel without a name, because the program had ended before its files were read."""
        self._has_new_libraries = True
        self.read_libraries()

    def libraries_changed(self) -> None:
        """Record that it has loaded libraries since its maps were read."""
        self._has_new_libraries = True

    def read_libraries(self) -> None:
        """Read what it has mapped, where that has changed."""
        if self._has_new_libraries:
            self._has_new_libraries = False
            self.names.remember_maps()

    def kernel_at(self, address: int) -> KernelAt:
        """Return what is known of the kernel with a host function, or a handle, at ``address``."""
        self.read_libraries()
        known = (names.at(address) for names in (self.names, *self.names_of_ancestors))
        first = next(known)
        kernel = first if first.file is not None else next((found for found in known if found.file is not None), first)
        self.has_unread_kernels |= kernel.is_unread
        return kernel

    @property
    def problems(self) -> dict[str, str]:
        """Why CUDA code that was asked for could not be read, by the path of its file."""
        found: dict[str, str] = {}
        for names in (self.names, *self.names_of_ancestors):
            found |= names.problems
        return found


class ProgramRun:
    """One program run that has called CUDA."""

    def __init__(self, image: ProgramImage, visibility: Visibility) -> None:
        self.command = image.command
        self.control_group = image.control_group
        self.visibility = visibility
        self.handles: dict[int, str | int] = {}
        """The kernels whose handles were asked for: their mangled names, or their host functions."""
        self.image = image

    def gpu_of(self, device: int) -> PhysicalGpu | None:
        """Return the physical GPU that the program calls ``device``, None where that is not known."""
        return self.visibility.any_gpu() if device == UNKNOWN_DEVICE else self.visibility.gpu_of(device)

    def kernel(self, address: int) -> KernelAt:
        """Return what is known of the kernel that the program launches as ``address``."""
        meant = self.handles.get(address, address)
        if isinstance(meant, str):
            return KernelAt(meant, demangle(meant), None, None)
        return self.image.kernel_at(meant)


class Programs:
    """All program runs that have called CUDA, by number.

    :param cache: What is known of files.
    :param proc: Where processes are described.
    """

    def __init__(self, cache: BinaryCache, proc: str = '/proc') -> None:
        self._cache = cache
        self._proc = proc
        self._host = HostGpus()
        self._runs: dict[int, ProgramRun] = {}
        self._images: OrderedDict[int, ProgramImage] = OrderedDict()
        """Of runs that have loaded CUDA, or have called it."""
        self._initial: OrderedDict[int, dict[str, str] | None] = OrderedDict()
        """The variables of runs that had begun before they were followed, as they were then."""
        self._changes: OrderedDict[int, dict[str, EnvironmentChange]] = OrderedDict()
        """The last of each variable: what comes after the first call does not count."""
        self._handles: OrderedDict[int, dict[int, str | int]] = OrderedDict()
        self._parents: OrderedDict[int, ProgramImage] = OrderedDict()
        """Those of the parents of runs that were forked."""

    def set_gpus(self, host: HostGpus) -> None:
        """Set the GPUs of this machine, which the driver may report late."""
        self._host = host
        for run in self._runs.values():
            run.visibility.set_gpus(host)

    def get(self, process: int) -> ProgramRun | None:
        """Return a program run, None where its first call was not reported."""
        return self._runs.get(process)

    def gpu_of(self, process: int, device: int) -> PhysicalGpu | None:
        """Return the physical GPU that a program run calls ``device``, None where that is not known."""
        run = self._runs.get(process)
        return None if run is None else run.gpu_of(device)

    def forget(self, process: int) -> None:
        """Drop what is known of a program run."""
        self._runs.pop(process, None)

    def runs_already(self, process: int, pid: int) -> None:
        """Take the variables of a program run that is followed from now on: it may have changed them before."""
        self._keep(self._initial, process, environment.running_variables(pid, self._proc))

    def loaded_cuda(self, process: int, pid: int) -> None:
        """Read of a program run that may call CUDA what cannot be read any more when it has ended."""
        if process not in self._images:
            image = ProgramImage(pid, self._cache, self._parents.get(process), self._proc)
            self._keep(self._images, process, image, _MOST_IMAGES)

    def called(self, notice: Notice) -> None:
        """Record a program's first CUDA call."""
        self.loaded_cuda(notice.process, notice.pid)
        image = self._images[notice.process]
        initial = self._initial.get(notice.process, image.variables)
        visibility = Visibility(self._host, initial, image.access)
        for change in self._changes.get(notice.process, {}).values():
            visibility.changed(change)
        visibility.called(notice.time)
        run = ProgramRun(image, visibility)
        run.handles.update(self._handles.pop(notice.process, {}))
        self._runs[notice.process] = run

    def changed_variable(self, notice: Notice) -> None:
        """Record a variable that was set or removed."""
        name, value = notice.name, notice.text
        if not name:  # putenv has both in one text, or the name alone
            name, equals, rest = (notice.text or '').partition('=')
            value = rest if equals else None
        if name not in environment.NAMES or (notice.address and self._is_set(notice, name)):
            return
        change = EnvironmentChange(notice.process, notice.time, name, value)
        self._keep(self._changes, notice.process, {**self._changes.get(notice.process, {}), name: change})
        run = self._runs.get(notice.process)
        if run is not None:
            run.visibility.changed(change)

    def forked(self, notice: Notice) -> None:
        """Give a child the variables of its parent as they are then, and its names."""
        parent = notice.address
        image = self._images.get(parent) or self._parents.get(parent)
        if image is not None:
            self._keep(self._parents, notice.process, image)
        if parent in self._initial:
            self._keep(self._initial, notice.process, self._initial[parent])
        inherited = self._changes.get(parent)
        if inherited:
            own = {name: change._replace(process=notice.process) for name, change in inherited.items()}
            self._keep(self._changes, notice.process, own)

    def executed(self, notice: Notice) -> None:
        """Forget what the program before knew of its variables: this one was started with them."""
        for known in (self._initial, self._changes, self._images, self._parents):
            known.pop(notice.address, None)

    def ended(self, notice: Notice) -> None:
        """Forget the variables of a program run that has ended."""
        for known in (self._initial, self._changes, self._images, self._parents):
            known.pop(notice.process, None)

    def named_kernel(self, notice: Notice) -> None:
        """Take what a kernel's handle stands for."""
        run = self._runs.get(notice.process)
        if run is None:
            self._keep(self._handles, notice.process, self._handles.get(notice.process, {}))
        handles = self._handles[notice.process] if run is None else run.handles
        if notice.address and len(handles) < _MOST_HANDLES:
            handles[notice.address] = notice.text or notice.value

    def changed_libraries(self, notice: Notice) -> None:
        """Record that a program run has loaded libraries."""
        image = self._images.get(notice.process)
        if image is not None:
            image.libraries_changed()

    def _is_set(self, notice: Notice, name: str) -> bool:
        """Return whether a variable was set before a notice, or may have been."""
        change = self._changes.get(notice.process, {}).get(name)
        if change is not None:
            return change.value is not None
        known = (
            self._initial[notice.process]
            if notice.process in self._initial
            else environment.initial_variables(notice.pid, self._proc)
        )
        return known is None or name in known

    @staticmethod
    def _keep(among: OrderedDict[int, Kept], process: int, what: Kept, most: int = _MOST_REMEMBERED) -> None:
        """Remember something of a run that may never call CUDA: of so many only."""
        among[process] = what
        if len(among) > most:
            among.popitem(last=False)


def _command_line(pid: int, proc: str) -> str | None:
    """Return what a process was started with, its words with blanks between them; None where it is gone."""
    try:
        with open(f'{proc}/{pid}/cmdline', 'rb') as file:
            words = file.read(_LONGEST_COMMAND).rstrip(b'\0').split(b'\0')
    except OSError:
        return None
    return os.fsdecode(b' '.join(words)) or None


def _control_group(pid: int, proc: str) -> str | None:
    """Return the path of the group that a process is accounted to; None where it is gone, or there are no groups."""
    try:
        group = accounting_group(groups_of(pid, proc))
    except OSError:
        return None
    return None if group is None else group.path
