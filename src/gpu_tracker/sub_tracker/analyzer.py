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
    """Puts together what a tracker has measured and when code blocks were going on.

    Both files may be CSV or SQLite, of gpu-tracker 5 or of this one, or a recording: one that is given twice has both.

    :param tracking_file: The path of what a tracker has measured; None where only code blocks are asked for.
    :param sub_tracking_file: The path of the code blocks.
    :raises ValueError: from each method, where a file is something else; OSError: where it cannot be read.
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
        """Write the code blocks of several files to a new one, the ``sub_tracking_file``.

        :raises ValueError: where that is there already.
        """
        block_file.combine(self._sub_tracking_file, [os.fsdecode(file) for file in files])

    def load_timestamp_pairs(self, code_block_name: str) -> list[tuple[float, float]]:
        """Return the Unix times of the start and the stop of each call of a code block that has ended.

        Calls that a recording has summed up are one pair: the start of the first, the stop of the last.
        """
        block = self._blocks.get(code_block_name, BlockCalls())
        return [(call.start, call.stop) for call in block.calls]

    def load_timepoints(self, timestamp_pairs: Iterable[tuple[float, float]]) -> Any:  # noqa: ANN401 - as above
        """Return what was measured from the start to the stop of any pair, as a :class:`pandas.DataFrame`."""
        measured = self._measured
        columns = measured.rows(measured.ranges(timestamp_pairs))
        pandas = results.pandas('the result of load_timepoints()')
        frame = pandas.DataFrame({name: list(values) for name, values in columns.items()}, dtype=float)
        threads = [name for name in frame if name.endswith('_n_threads') and not frame[name].isna().any()]
        return frame.astype(dict.fromkeys(threads, int))

    def overall_timepoint_results(self) -> Any:  # noqa: ANN401 - as above
        """Return the statistics of each measurement over all points of time, as a :class:`pandas.DataFrame`."""
        statistics = self._measured.statistics()
        return results.statistics_frame(statistics, 'the result of overall_timepoint_results()')

    def sub_tracking_results(self) -> SubTrackingResults:
        """Return what was used in the whole run and in each code block."""
        measured = self._measured
        blocks = self._blocks
        found = [_block_results(name, blocks[name], measured) for name in sorted(blocks)]
        return SubTrackingResults(measured.statistics(), measured.static, found)

    @cached_property
    def _measured(self) -> Timepoints:
        if self._tracking_file is None:
            raise SubTrackingError('tracking_file must be the path of a tracking file for this, not None')
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
