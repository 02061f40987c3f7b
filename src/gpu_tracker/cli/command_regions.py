"""The log of a command's regions: its path in the environment, and its removal."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from types import TracebackType
    from typing import Self

    from gpu_tracker.cli.request import Request
    from gpu_tracker.running.run_regions import RunRegions


class CommandRegions:
    """Put the path of the region log into the environment while the block runs, if the run is recorded.

    :ivar path: Path of the log; None: there is none.
    """

    def __init__(self, request: Request) -> None:
        self.path: str | None = None
        self._regions: RunRegions | None = None
        is_csv = request.parameters.get('tracking_file', '.csv').endswith('.csv')
        if is_csv and not request.keeps and 'job_folder' not in request.parameters:
            return
        from gpu_tracker.running.run_regions import RunRegions  # noqa: PLC0415 (only where something is recorded)

        try:
            self._regions = RunRegions()
        except OSError:
            return  # there is no room for a log: the run is recorded without regions
        self.path = self._regions.path

    def __enter__(self) -> Self:
        """Put the log into the environment."""
        if self._regions is not None:
            self._regions.join()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Remove the log from the environment. The started command keeps it."""
        if self._regions is not None:
            self._regions.leave()

    def remove(self) -> None:
        """Remove the log."""
        if self._regions is not None:
            self._regions.remove()
