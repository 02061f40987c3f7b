"""The files of a run: its recording, its record in the folder of a job, and the log of its regions."""

from __future__ import annotations

import sys

from gpu_tracker import job
from gpu_tracker.errors import ParameterError, see
from gpu_tracker.real import os
from gpu_tracker.recording.schema import STOPPED
from gpu_tracker.recording.writing.tracking_file import TrackingFile
from gpu_tracker.running.run_regions import RunRegions, load_regions
from gpu_tracker.version import __version__

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any, Literal

    from gpu_tracker.recording.reading.model import Region
    from gpu_tracker.recording.writing.rank_files import RankFiles
    from gpu_tracker.running.command import TrackedCommand
    from gpu_tracker.running.options import Options
    from gpu_tracker.totals import RecordingRequest, Totals


class RunFiles:
    """The files of one run.

    :param options: Which files are wanted.
    :param command: The command that is tracked; None: a process.
    :param commit_interval: Seconds after which samples are in the recording; None: as usual.
    :param keeps: Whether the run is recorded and kept without a file of its own in the options.
    """

    def __init__(
        self,
        options: Options,
        command: TrackedCommand | None,
        commit_interval: float | None = None,
        *,
        keeps: bool = False,
    ) -> None:
        self._options = options
        self._command = command
        self._commit_interval = commit_interval
        self._keeps = keeps
        self._identity: Mapping[str, Any] | None = None
        self._file: TrackingFile | None = None
        self._rank: RankFiles | None = None
        self._rank_metadata: dict[str, Any] = {}
        self._regions: RunRegions | None = None

    @property
    def _tracks_itself(self) -> bool:
        return self._options.process_id == os.getpid()

    @property
    def has_recording(self) -> bool:
        """Whether the run is recorded, not only its regions."""
        return self._keeps or self._file is not None

    @property
    def renamed(self) -> tuple[str, str] | None:
        """The path of the recording, and the new one of an older recording that had it; None: there was none."""
        file = self._file
        return None if file is None or file.renamed is None else (file.path, file.renamed)

    @property
    def recording(self) -> str | None:
        """The path of the recording; None if none was asked for."""
        if self._rank is not None:
            return self._rank.recording
        return None if self._options.records_rows_only else self._options.tracking_file

    @property
    def rank_report(self) -> str:
        """The path of the record of this rank in the folder of the job."""
        return '' if self._rank is None else self._rank.report

    def make(self) -> None:
        """Make the recording, the record of the rank, and the log of regions if this process tracks itself.

        :raises ParameterError: if a file cannot be written.
        """
        options = self._options
        self._identity = self._job_identity()
        path = options.tracking_file
        if options.job_folder is not None:
            path = self._begin_rank(options.job_folder)
        if path is not None:
            self._file = TrackingFile(path, overwrite=options.overwrite)
            try:
                self._file.create()
            except BaseException:
                self.discard()
                raise
        if self._tracks_itself:
            try:
                self._regions = RunRegions()
            except OSError:
                pass  # there is no room for a log: then there are no regions

    def hand_over(self) -> None:
        """Close the recording, which the sampler has open and locked."""
        if self._file is not None:
            self._file.hand_over()

    def join(self) -> None:
        """Have this process write its regions to the log."""
        if self._regions is not None:
            self._regions.join()

    def leave(self) -> None:
        """Have this process write no more regions."""
        if self._regions is not None:
            self._regions.leave()

    def end(self) -> None:
        """Remove the log of regions, and keep what the sampler has made of it until this process ends."""
        if self._regions is not None:
            self._regions.remove()
            self._regions.take()

    def keep(self) -> None:
        """Remove the file that the recording replaces: the run has begun."""
        if self._file is not None:
            self._file.keep()

    def discard(self, *, is_unmeasured: bool = False) -> None:
        """Remove all files, and put back the file that the recording would have replaced.

        :param is_unmeasured: The process runs all the same: the folder of the job has a record of that.
        """
        if self._rank is not None:
            self._rank.discard()
            if is_unmeasured:
                from gpu_tracker.recording.writing.rank_files import UNMEASURED  # noqa: PLC0415 - only in jobs

                try:
                    self._rank.write(self._rank_metadata, None, UNMEASURED)
                except OSError:
                    pass  # the error that has led here is reported
            self._rank = None
        if self._file is not None:
            self._file.discard()
        if self._regions is not None:
            self._regions.remove()

    def write_end(self, totals: Totals | None, exit_code: int | None) -> None:
        """Write the record of this rank into the folder of the job, if there is one, when the run has ended.

        :param totals: What was measured; None: there is no result.
        :raises OSError: if that fails.
        """
        if self._rank is not None:
            self._rank.write(self._rank_metadata, totals, STOPPED, exit_code)

    def regions(self) -> tuple[Region, ...]:
        """Return the regions of this process and of what it has started."""
        if self.recording is not None:
            return load_regions(self.recording)
        return () if self._regions is None else self._regions.load()

    def requests(self) -> dict[str, Any]:
        """Return the part of the sampler's configuration that is about files."""
        options, rank = self._options, self._rank
        regions = None if self._command is None else self._command.regions
        return {
            'words': self._words(),
            'version': __version__,
            'recording': self._recording(),
            'rows_file': options.tracking_file if options.records_rows_only else None,
            'recording_handle': None if self._file is None else self._file.handle,
            'regions': regions if self._regions is None else self._regions.path,
            'job': self._identity,
            'rank': None if rank is None else {'folder': rank.folder, 'name': rank.name, 'about': self._rank_metadata},
        }

    def _recording(self) -> RecordingRequest | None:
        options = self._options
        path = options.tracking_file if self._rank is None else self._rank.partial
        begins: Literal['now', 'late', 'with_regions'] = 'now'
        if self._keeps and path is None:
            begins = 'late'
        elif path is None or options.records_rows_only:
            if self._regions is None:
                return None
            path, begins = self._regions.recording_path, 'with_regions'
        return {
            'path': path or '',
            'begins': begins,
            'per_process': options.per_process,
            'commit_interval': self._commit_interval,
        }

    def _words(self) -> tuple[str, ...] | None:
        """Return the command line of the tracked program; None if it is not known."""
        if self._command is not None:
            return self._command.words
        return tuple(sys.orig_argv) if self._tracks_itself else None

    def _job_identity(self) -> Mapping[str, Any] | None:
        options = self._options
        if options.job is not None:
            return options.job
        if self._tracks_itself or self._command is not None:
            return job.identify(os.environ, os.getpid())
        return job.identity_of(options.process_id)

    def _begin_rank(self, folder: str) -> str:
        """Write the start record into the job's folder, and return the path of the recording.

        :raises ParameterError: if nothing can be written there.
        """
        from gpu_tracker.recording.writing import rank_files  # noqa: PLC0415 - only in jobs

        options = self._options
        is_own = self._tracks_itself or self._command is not None
        environment = os.environ if is_own else job.environment_of(options.process_id)
        try:
            rank = rank_files.new_files(folder, self._identity)
            self._rank_metadata = rank_files.about_rank(
                rank,
                program=f'gpu-tracker {__version__}',
                identity=self._identity,
                asked=job.asked_of_node(environment or os.environ),
                pid=options.process_id,
                command=self._words(),
                interval=options.sleep_time,
                units=options.units(),
                sections=options.sections,
            )
            self._rank = rank
            rank.begin(self._rank_metadata)
        except OSError as error:
            accepted = f'a folder that can be written ({error.strerror})'
            raise ParameterError('job_folder', folder, accepted, see('cannot-write')) from None
        return rank.partial
