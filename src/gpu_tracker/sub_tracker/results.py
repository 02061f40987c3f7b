"""What was used in each code block, with the attributes, the JSON and the types of pandas of gpu-tracker 5."""

from __future__ import annotations

import copy
import json
import math
from importlib import import_module
from typing import TYPE_CHECKING, Any

from gpu_tracker.errors import MissingPackageError, SubTrackingError
from gpu_tracker.sub_tracker import text
from gpu_tracker.sub_tracker.timepoints import STATISTICS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from gpu_tracker.sub_tracker.timepoints import Statistics

    Table = Mapping[str, Statistics]
    """Statistics by measurement."""


class CodeBlockResults:
    """Results of one code block.

    :ivar name: Name.
    :ivar num_timepoints: Samples in its calls.
    :ivar num_calls: Ended calls.
    :ivar num_non_empty_calls: Ended calls with a sample.
    :ivar num_unfinished_calls: Calls without an end.
    :ivar compute_time: Statistics of the durations in seconds (pandas).
    :ivar resource_usage: Statistics of each measurement (pandas).
    """

    def __init__(
        self,
        name: str,
        num_timepoints: int,
        num_calls: int,
        num_non_empty_calls: int,
        compute_time: Statistics,
        resource_usage: Table,
        num_unfinished_calls: int = 0,
    ) -> None:
        self.name = name
        self.num_timepoints = num_timepoints
        self.num_calls = num_calls
        self.num_non_empty_calls = num_non_empty_calls
        self.num_unfinished_calls = num_unfinished_calls
        self._compute_time = compute_time
        self._resource_usage = resource_usage

    @property
    def compute_time(self) -> Any:  # noqa: ANN401 - pandas need not be there
        """How long calls took, as a :class:`pandas.Series`."""
        return number_series(self._compute_time, 'CodeBlockResults.compute_time')

    @property
    def resource_usage(self) -> Any:  # noqa: ANN401 - as above
        """What was used during the calls, as a :class:`pandas.DataFrame`."""
        return statistics_frame(self._resource_usage, 'CodeBlockResults.resource_usage')

    def to_json(self) -> dict[str, Any]:
        """Return all values, unknown ones as None."""
        return {
            'name': self.name,
            'num_timepoints': self.num_timepoints,
            'num_calls': self.num_calls,
            'num_non_empty_calls': self.num_non_empty_calls,
            'num_unfinished_calls': self.num_unfinished_calls,
            'compute_time': dict(self._compute_time),
            'resource_usage': copy.deepcopy(self._resource_usage),
        }


class SubTrackingResults:
    """Results of a run and its code blocks.

    :ivar code_block_results: A :class:`CodeBlockResults` for each block.
    :ivar overall: Statistics of each measurement (pandas).
    :ivar static_data: Units, capacities and counts (pandas).
    """

    def __init__(
        self, overall: Table, static_data: Mapping[str, Any], code_block_results: Sequence[CodeBlockResults]
    ) -> None:
        self._overall = overall
        self._static_data = static_data
        self.code_block_results = list(code_block_results)

    def __str__(self) -> str:
        """Return all values as text."""
        return text.results_text(self.to_json())

    @property
    def overall(self) -> Any:  # noqa: ANN401 - as above
        """What was used in the whole run, as a :class:`pandas.DataFrame`."""
        return statistics_frame(self._overall, 'SubTrackingResults.overall')

    @property
    def static_data(self) -> Any:  # noqa: ANN401 - as above
        """Units, capacities and counts, as a :class:`pandas.Series`."""
        return static_series(self._static_data, 'SubTrackingResults.static_data')

    def to_json(self) -> dict[str, Any]:
        """Return all values, unknown ones as None."""
        return {
            'overall': copy.deepcopy(self._overall),
            'static_data': dict(self._static_data),
            'code_block_results': [block.to_json() for block in self.code_block_results],
        }


def read_results(path: str) -> SubTrackingResults:
    """Return the results in a file, which ``to_json()`` of this gpu-tracker or of gpu-tracker 5 has made.

    :raises SubTrackingError: if the file has no results; OSError: if it cannot be read.
    """
    with open(path, 'rb') as file:
        data = file.read()
    try:
        values = json.loads(data, parse_constant=lambda _: None)  # NaN of gpu-tracker 5
        blocks = [
            CodeBlockResults(
                name=str(block['name']),
                num_timepoints=int(block['num_timepoints']),
                num_calls=int(block['num_calls']),
                num_non_empty_calls=int(block['num_non_empty_calls']),
                num_unfinished_calls=int(block.get('num_unfinished_calls', 0)),
                compute_time=_statistics(block['compute_time'], 'total'),
                resource_usage=_table(block['resource_usage']),
            )
            for block in values['code_block_results']
        ]
        return SubTrackingResults(_table(values['overall']), dict(values['static_data']), blocks)
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise SubTrackingError(
            f"{path} has no results in JSON. Write the results with 'gpu-tracker sub-track analyze -f json -o FILE'. "
            'Pickles are not loaded, because a pickle can run any code'
        ) from error


def statistics_frame(table: Table, what: str) -> Any:  # noqa: ANN401 - a DataFrame
    """Return a DataFrame with a row for each measurement and a column for each statistic, NaN if unknown."""
    rows = {name: [statistics[key] for key in STATISTICS] for name, statistics in table.items()}
    return pandas(what).DataFrame.from_dict(rows, orient='index', columns=list(STATISTICS), dtype=float)


def number_series(values: Mapping[str, float | None], what: str) -> Any:  # noqa: ANN401 - a Series
    """Return a Series of floats, NaN if unknown."""
    return pandas(what).Series(dict(values), dtype=float)


def static_series(values: Mapping[str, Any], what: str) -> Any:  # noqa: ANN401 - a Series
    """Return units, capacities and counts as a Series of objects."""
    return pandas(what).Series(dict(values), dtype=object, name=0)


def pandas(what: str) -> Any:  # noqa: ANN401 - the package need not be there
    """Return the package; raise MissingPackageError, which says that ``what`` needs it."""
    try:
        return import_module('pandas')
    except ImportError as error:
        from gpu_tracker.installation import package_command  # noqa: PLC0415 - only if the package is missing

        message = f'{what} is a type of pandas, which is not installed: {package_command("pandas")}'
        raise MissingPackageError(message) from error


def _table(values: Any) -> Table:  # noqa: ANN401 - from a file
    return {name: _statistics(statistics) for name, statistics in values.items()}


def _statistics(values: Any, *others: str) -> Statistics:  # noqa: ANN401 - from a file
    """Return numbers by name; raise TypeError, KeyError or ValueError for anything else."""
    found = {name: values[name] for name in (*STATISTICS, *others)}
    if not all(value is None or math.isfinite(value) for value in found.values()):
        raise ValueError
    return found
