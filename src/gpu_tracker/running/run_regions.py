"""The regions of a run, from the log that programs write to the recording that is read at the end."""

from __future__ import annotations

import sys

from gpu_tracker.real import os
from gpu_tracker.regions import log

TYPE_CHECKING = False
if TYPE_CHECKING:
    from gpu_tracker.recording.reading.model import Region

_SUFFIXES = ('', '-journal')
"""A recording is two files where its sampler was killed."""


class RunRegions:
    """The log of one run; with it the temporary recording that the sampler makes of it where nobody has asked for one.

    :raises OSError: where no log can be made.
    :ivar path: Of the log.
    """

    def __init__(self) -> None:
        self.path = log.create_log()
        self._is_joined = False
        self._handles: dict[str, int] = {}
        self._loaded: tuple[Region, ...] | None = None

    def __del__(self) -> None:
        """Let go of the temporary recording, which has no name any more, but on Windows."""
        for suffix, handle in self._handles.items():
            os.close(handle)
            if sys.platform == 'win32':
                _unlink(self.recording_path + suffix)

    @property
    def recording_path(self) -> str:
        """Where the temporary recording is."""
        return f'{self.path}.db'

    def join(self) -> None:
        """Have the regions of this process, and of what it starts, written to the log."""
        log.join(self.path)
        self._is_joined = True

    def leave(self) -> None:
        """Have them written there no more."""
        if self._is_joined:
            self._is_joined = False
            log.leave(self.path)

    def remove(self) -> None:
        """Remove the log, which the sampler has done already unless it was killed."""
        self.leave()
        _unlink(self.path)

    def take(self) -> None:
        """Take over the temporary recording, if there is one, so that no file is left when this process ends."""
        for suffix in _SUFFIXES:
            path = self.recording_path + suffix
            try:
                self._handles[suffix] = os.open(
                    path, os.O_RDONLY | getattr(os, 'O_CLOEXEC', 0) | getattr(os, 'O_BINARY', 0)
                )
            except OSError:
                continue  # there were no regions
            if sys.platform != 'win32':
                _unlink(path)

    def load(self) -> tuple[Region, ...]:
        """Return the regions of the temporary recording."""
        if self._loaded is None:
            self._loaded = self._load() if '' in self._handles else ()
        return self._loaded

    def _load(self) -> tuple[Region, ...]:
        import shutil  # noqa: PLC0415 - in the measured process, and only when it asks for regions
        import tempfile  # noqa: PLC0415 - as above

        with tempfile.TemporaryDirectory(prefix='gpu-tracker-') as folder:
            # SQLite follows /proc/self/fd to a name that is not there any more.
            for suffix, handle in self._handles.items():
                os.lseek(handle, 0, os.SEEK_SET)
                with open(handle, 'rb', closefd=False) as kept, open(f'{folder}/regions.db{suffix}', 'wb') as copy:
                    shutil.copyfileobj(kept, copy)
            return load_regions(f'{folder}/regions.db')


def load_regions(path: str) -> tuple[Region, ...]:
    """Return the regions in a recording."""
    from gpu_tracker.recording.reading.recording import load  # noqa: PLC0415 - imports SQLite

    with load(path) as recording:
        return recording.regions


def _unlink(path: str) -> None:
    try:
        os.unlink(path)
    except OSError:
        pass  # it is gone
