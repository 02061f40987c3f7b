"""The analysis of gpu-tracker 5: what was used while each code block was going on."""

from __future__ import annotations

import os
from functools import cached_property
from typing import TYPE_CHECKING, Any

from gpu_tracker.errors import SubTrackingError
from gpu_tracker.sub_tracker import block_file, results, timepoints
from gpu_tracker.sub_tracker.block_file import BlockCalls
from gpu_tracker.sub_tracker.results import CodeBlockResults, SubTrackingResults

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from gpu_tracker.sub_tracker.timepoints import Timepoints


class SubTrackingAnalyzer:
    """Combines measurements with code blocks. It reads CSV, SQLite and recordings.

    :param tracking_file: Measurements of a tracker, or None.
    :param sub_tracking_file: Code blocks.
    :raises ValueError: from each method, if a file has something else.
    :raises OSError: from each method, if a file cannot be read.
    """

    def __init__(self, tracking_file: str | os.PathLike[str] | None, sub_tracking_file: str | os.PathLike[str]) -> None:
        self._tracking_file = None if tracking_file is None else os.fsdecode(tracking_file)
        self._sub_tracking_file = os.fsdecode(sub_tracking_file)

    def read_static_data(self) -> Any:  # noqa: ANN401 - pandas need not be there
        """Return units, capacities and counts, as a :class:`pandas.Series`."""
        return results.static_series(self._measured.static, 'the result of read_static_data()')

    def load_code_block_names(self) -> list[str]:
        """Return the names of all code blocks, sorted."""
        return sorted(self._blocks)

    def combine_sub_tracking_files(self, files: Iterable[str | os.PathLike[str]]) -> None:
        """Write the code blocks of several files to ``sub_tracking_file``.

        :raises ValueError: if that exists.
        """
        block_file.combine(self._sub_tracking_file, [os.fsdecode(file) for file in files])

    def load_timestamp_pairs(self, code_block_name: str) -> list[tuple[float, float]]:
        """Return the Unix times of start and stop of each ended call.

        Calls added up in a recording are one pair.
        """
        block = self._blocks.get(code_block_name, BlockCalls())
        return [(call.start, call.stop) for call in block.calls]

    def load_timepoints(self, timestamp_pairs: Iterable[tuple[float, float]]) -> Any:  # noqa: ANN401 - as above
        """Return the measurements within any pair, as a :class:`pandas.DataFrame`."""
        measured = self._measured
        columns = measured.rows(measured.ranges(timestamp_pairs))
        pandas = results.pandas('the result of load_timepoints()')
        frame = pandas.DataFrame({name: list(values) for name, values in columns.items()}, dtype=float)
        threads = [name for name in frame if name.endswith('_n_threads') and not frame[name].isna().any()]
        return frame.astype(dict.fromkeys(threads, int))

    def overall_timepoint_results(self) -> Any:  # noqa: ANN401 - as above
        """Return statistics of the whole run, as a :class:`pandas.DataFrame`."""
        statistics = self._measured.statistics()
        return results.statistics_frame(statistics, 'the result of overall_timepoint_results()')

    def sub_tracking_results(self) -> SubTrackingResults:
        """Return a :class:`~gpu_tracker.sub_tracker.SubTrackingResults`."""
        measured = self._measured
        blocks = self._blocks
        found = [_block_results(name, blocks[name], measured) for name in sorted(blocks)]
        return SubTrackingResults(measured.statistics(), measured.static, found)

    @cached_property
    def _measured(self) -> Timepoints:
        if self._tracking_file is None:
            raise SubTrackingError('this analysis needs a tracking file, but tracking_file is None')
        return timepoints.read_timepoints(self._tracking_file)

    @cached_property
    def _blocks(self) -> Mapping[str, BlockCalls]:
        return block_file.read_blocks(self._sub_tracking_file)


def _block_results(name: str, block: BlockCalls, measured: Timepoints) -> CodeBlockResults:
    ranges = measured.ranges((call.start, call.stop) for call in block.calls)
    return CodeBlockResults(
        name=name,
        num_timepoints=sum(after - first for first, after in ranges),
        num_calls=sum(call.n_calls for call in block.calls),
        num_non_empty_calls=sum(min(call.n_calls, measured.count(call.start, call.stop)) for call in block.calls),
        num_unfinished_calls=block.n_unfinished,
        compute_time=block.compute_time(),
        resource_usage=measured.statistics(ranges),
    )
