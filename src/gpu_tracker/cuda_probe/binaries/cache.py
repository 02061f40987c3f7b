"""A cache of the files that processes have mapped, and of what was found in them, which is kept for the next run."""

from __future__ import annotations

import os
import stat
import threading
from collections import OrderedDict
from typing import TYPE_CHECKING

from gpu_tracker.cuda_probe.binaries.file_systems import FileSystems
from gpu_tracker.cuda_probe.binaries.program_file import FileIdentity, ProgramFile, findings_from, identity_of
from gpu_tracker.system.files import write_whole

if TYPE_CHECKING:
    from collections.abc import Mapping

_MOST_OPEN = 128
_MOST_WITHOUT_KERNELS = 8192
_MOST_KEPT = 256  # files in the folder
_LARGEST_KEPT = 16 << 20  # bytes
_OTHERS_MAY_WRITE = stat.S_IWGRP | stat.S_IWOTH


def cache_folder(environment: Mapping[str, str] | None = None) -> str | None:
    """Return where findings are kept: ``$XDG_CACHE_HOME/gpu-tracker/cuda``, or the same in ``~/.cache``.

    None where neither is an absolute path.
    """
    values = os.environ if environment is None else environment
    folder = values.get('XDG_CACHE_HOME', '')
    if not os.path.isabs(folder):  # as the XDG Base Directory Specification wants it
        folder = os.path.join(values.get('HOME', ''), '.cache')
    return os.path.join(folder, 'gpu-tracker', 'cuda') if os.path.isabs(folder) else None


class BinaryCache:
    """Opens each file once, whichever process has mapped it, and remembers what was found in it.

    ``folder`` is where that is kept from one run to the next, by build id, or by device, inode, size and time of change
    where a file has none; None keeps it in memory only, as does a folder that others may write to. ``lock`` is held by
    whoever asks, and ``file_systems`` says which of the files may be asked for.
    """

    def __init__(self, folder: str | None = None, file_systems: FileSystems | None = None) -> None:
        self._folder = folder
        self.file_systems = file_systems or FileSystems()
        self._open: OrderedDict[FileIdentity, ProgramFile] = OrderedDict()
        self._without_kernels: OrderedDict[FileIdentity, None] = OrderedDict()
        self.lock = threading.RLock()

    def file(self, path: str) -> ProgramFile:
        """Return the file ``path``; raises OSError where it cannot be opened, or is no regular one."""
        identity = identity_of(os.stat(path))
        known = self._open.get(identity)
        if known is None:
            known = ProgramFile(path)
            self._load(known)
            self._open[known.identity] = known
            while len(self._open) > _MOST_OPEN:
                _, dropped = self._open.popitem(last=False)
                self._keep(dropped)
        else:
            self._open.move_to_end(identity)
        return known

    def file_with_kernels(self, path: str) -> ProgramFile | None:
        """Return the file ``path`` where it has CUDA kernels, None otherwise; raises OSError as ``file`` does."""
        identity = identity_of(os.stat(path))
        if identity in self._without_kernels:
            return None
        if identity not in self._open:
            looked_at = ProgramFile(path)
            if not looked_at.has_kernels:
                # Not kept open: a Python process maps hundreds of libraries, and a few of them have kernels.
                self._without_kernels[identity] = None
                while len(self._without_kernels) > _MOST_WITHOUT_KERNELS:
                    self._without_kernels.popitem(last=False)
                return None
        return self.file(path)

    def save(self) -> None:
        """Write what was found since the last time; where that fails, the next run reads the files again."""
        with self.lock:
            for file in self._open.values():
                self._keep(file)
            self._remove_oldest()

    def _load(self, file: ProgramFile) -> None:
        name = self._name_of(file)
        if name is None:
            return
        try:
            descriptor = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
            with open(descriptor, encoding='utf-8') as kept:
                findings = findings_from(kept.read(_LARGEST_KEPT))
        except (OSError, UnicodeDecodeError):
            return  # never kept, or damaged: it is read from the file itself
        if findings is not None:
            file.findings = findings

    def _keep(self, file: ProgramFile) -> None:
        if not file.findings.changed or (name := self._name_of(file)) is None:
            return
        file.findings.changed = False
        text = file.findings.as_json()
        if len(text) > _LARGEST_KEPT:
            return
        try:
            write_whole(name, text)
        except OSError:
            pass  # a full disk costs the next run some seconds, and this one nothing

    def _name_of(self, file: ProgramFile) -> str | None:
        """Return the name under which findings of the file are kept, None where they are not."""
        if not self._is_own_folder():
            return None
        identity = file.identity
        # Anybody can write another file's build id into his own: the size makes a mistake less likely, no more.
        name = (
            f'{file.build_id}-{identity.size:x}'
            if file.build_id
            else f'{identity.device:x}-{identity.inode:x}-{identity.size:x}-{identity.modified:x}'
        )
        return os.path.join(self._folder or '', f'{name[:200]}.json')

    def _is_own_folder(self) -> bool:
        if self._folder is None:
            return False
        try:
            os.makedirs(self._folder, mode=0o700, exist_ok=True)
            status = os.lstat(self._folder)
        except OSError:
            return False  # no home folder, or a read-only one
        # A link put there by somebody else would lead root's write to any file.
        return stat.S_ISDIR(status.st_mode) and status.st_uid == os.geteuid() and not status.st_mode & _OTHERS_MAY_WRITE

    def _remove_oldest(self) -> None:
        if not self._is_own_folder():
            return
        try:
            with os.scandir(self._folder) as entries:
                kept = sorted(
                    (entry.stat().st_mtime_ns, entry.path) for entry in entries if entry.name.endswith('.json')
                )
            for _, path in kept[:-_MOST_KEPT]:
                os.unlink(path)
        except OSError:
            pass  # somebody else removes them as well
