"""The command of a run, as its parts know it."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence


class TrackedCommand:
    """The command that a run measures.

    :ivar words: The command and its arguments.
    :ivar folder: Its working directory; None: the directory of this process.
    :ivar regions: The path of the log that it writes regions to.
    :ivar launcher: The process that has forked it, holds it before its exec, and adopts its orphans; None: it runs.
    :ivar exec_handle: The reading end of a pipe that the exec of a held command closes. Its memory counts from then on.
    :ivar started_at: When a command was started that is not held, in monotonic seconds.
    """

    def __init__(
        self,
        words: Sequence[str],
        *,
        folder: str | None = None,
        regions: str | None = None,
        launcher: int | None = None,
        exec_handle: int | None = None,
        started_at: float | None = None,
    ) -> None:
        self.words = tuple(words)
        self.folder = folder
        self.regions = regions
        self.launcher = launcher
        self.exec_handle = exec_handle
        self.started_at = started_at
