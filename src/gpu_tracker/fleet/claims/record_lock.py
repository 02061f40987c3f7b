"""The lock on the file of a claim: it tells processes of other PID namespaces whether the claim's process still runs.

There, as in another container, that process has another number or none. But flock(2) is the same all over the machine:
whoever claims locks the file and keeps it open, and the kernel lifts the lock when the last process ends that has it
open. So a lock that nobody holds tells that the process has ended, or that it has closed the file.
"""

from __future__ import annotations

import os
import sys

if sys.platform != 'win32':
    import fcntl

_LOWEST = 20
"""Scripts use the descriptors from 3 to 9 and take them for free, and shells those from 10 on for themselves."""


class RecordLock:
    """The lock on the file of one claim, for who makes the claim.

    Processes that are forked from this one hold it as well, until they start another program.

    :param survives_exec: Whether other programs that this process becomes, or starts with the files that it has open,
        hold it as well.
    """

    def __init__(self, *, survives_exec: bool) -> None:
        self._survives_exec = survives_exec
        self._file: int | None = None

    def take(self, file: int) -> None:
        """Lock the file, and keep it open with a descriptor of its own.

        :raises OSError: if that fails.
        """
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        self._file = fcntl.fcntl(file, fcntl.F_DUPFD if self._survives_exec else fcntl.F_DUPFD_CLOEXEC, _LOWEST)

    def let_go(self) -> None:
        """Close the file, if it is open, and with it lift the lock as far as this process holds it."""
        # The number goes first: closed twice, after Ctrl-C, it might be that of another file.
        file, self._file = self._file, None
        if file is not None:
            os.close(file)


def is_held(file: int) -> bool:
    """Tell whether somebody holds the lock on an open file; where that cannot be told, somebody does.

    A GPU that is given to nobody for too long is better than one that is given to two.
    """
    try:
        # Shared with others who ask at the same moment, who are not to be taken for holders. It ends with the file.
        fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return True
    return False
