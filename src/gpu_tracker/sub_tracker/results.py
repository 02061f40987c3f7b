"""What was used in each code block, with the attributes and the JSON of gpu-tracker 5."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from gpu_tracker.sub_tracker import pandas_types, text

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence


class CodeBlockResults:
    """What was used in all calls of one code block.

    :ivar name: The name of the block.
    :ivar num_timepoints: The points of time at which any call of the block was going on.
    :ivar num_calls: The calls that have ended.
    :ivar num_non_empty_calls: Those of them with at least one point of time.
    :ivar num_unfinished_calls: The calls that have not ended, of which nothing is known but their start.

    :param compute_time: ``min``, ``max``, ``mean``, ``std`` and ``total`` of the calls' durations, in seconds.
    :param resource_usage: ``min``, ``max``, ``mean`` and ``std`` of each measurement over these points of time.
    """

    def __init__(
        self,
        name: str,
        num_timepoints: int,
        num_calls: int,
        num_non_empty_calls: int,
        compute_time: Any,  # noqa: ANN401 - a mapping or a Series
        resource_usage: Any,  # noqa: ANN401 - a mapping of mappings or a DataFrame
        num_unfinished_calls: int = 0,
    ) -> None:
        self.name = name
        self.num_timepoints = num_timepoints
        self.num_calls = num_calls
        self.num_non_empty_calls = num_non_empty_calls
        self.num_unfinished_calls = num_unfinished_calls
        self._compute_time = pandas_types.plain_values(compute_time)
        self._resource_usage = pandas_types.plain_table(resource_usage)

    def __eq__(self, other: object) -> bool:
        """Return whether all values are the same."""
        return isinstance(other, CodeBlockResults) and self.to_json() == other.to_json()

    __hash__ = None  # type: ignore[assignment]  # as in gpu-tracker 5

    def __repr__(self) -> str:
        """Return the name and the number of calls."""
        return f'<CodeBlockResults {self.name!r}: {self.num_calls} calls>'

    @property
    def compute_time(self) -> Any:  # noqa: ANN401 - pandas need not be there
        """How long calls took, as a :class:`pandas.Series`."""
        return pandas_types.number_series(self._compute_time, 'CodeBlockResults.compute_time')

    @property
    def resource_usage(self) -> Any:  # noqa: ANN401 - as above
        """What was used during the calls, as a :class:`pandas.DataFrame`."""
        return pandas_types.statistics_frame(self._resource_usage, 'CodeBlockResults.resource_usage')

    def to_json(self) -> dict[str, Any]:
        """Return all values, unknown ones as None."""
        return {
            'name': self.name,
            'num_timepoints': self.num_timepoints,
            'num_calls': self.num_calls,
            'num_non_empty_calls': self.num_non_empty_calls,
            'num_unfinished_calls': self.num_unfinished_calls,
            'compute_time': dict(self._compute_time),
            'resource_usage': {name: dict(values) for name, values in self._resource_usage.items()},
        }


class SubTrackingResults:
    """What was used in a whole run, and in each of its code blocks.

    :ivar code_block_results: A :class:`CodeBlockResults` a block.

    :param overall: ``min``, ``max``, ``mean`` and ``std`` of each measurement over all points of time.
    :param static_data: Units, capacities and counts.
    """

    def __init__(
        self,
        overall: Any,  # noqa: ANN401 - a mapping of mappings or a DataFrame
        static_data: Any,  # noqa: ANN401 - a mapping or a Series
        code_block_results: Sequence[CodeBlockResults],
    ) -> None:
        self._overall = pandas_types.plain_table(overall)
        self._static_data = pandas_types.plain_values(static_data)
        self.code_block_results = list(code_block_results)

    def __eq__(self, other: object) -> bool:
        """Return whether all values are the same."""
        return isinstance(other, SubTrackingResults) and self.to_json() == other.to_json()

    __hash__ = None  # type: ignore[assignment]  # as in gpu-tracker 5

    def __repr__(self) -> str:
        """Return the names of the blocks."""
        return f'<SubTrackingResults of {", ".join(block.name for block in self.code_block_results) or "no block"}>'

    def __reduce__(self) -> tuple[Callable[[str], SubTrackingResults], tuple[str]]:
        """Be pickled as JSON, which :class:`~gpu_tracker.sub_tracker.TrackingComparison` reads without unpickling."""
        return from_json, (json.dumps(self.to_json()),)

    def __str__(self) -> str:
        """Return all values as text."""
        return text.results_text(self.to_json())

    @property
    def overall(self) -> Any:  # noqa: ANN401 - pandas need not be there
        """What was used in the whole run, as a :class:`pandas.DataFrame`."""
        return pandas_types.statistics_frame(self._overall, 'SubTrackingResults.overall')

    @property
    def static_data(self) -> Any:  # noqa: ANN401 - as above
        """Units, capacities and counts, as a :class:`pandas.Series`."""
        return pandas_types.static_series(self._static_data, 'SubTrackingResults.static_data')

    def to_json(self) -> dict[str, Any]:
        """Return all values, unknown ones as None."""
        return {
            'overall': {name: dict(values) for name, values in self._overall.items()},
            'static_data': dict(self._static_data),
            'code_block_results': [block.to_json() for block in self.code_block_results],
        }


def from_plain(values: Mapping[str, Any]) -> SubTrackingResults:
    """Return the results that ``to_json()`` has made ``values`` of.

    :raises TypeError, ValueError, KeyError, AttributeError: where they are something else.
    """
    blocks = [
        CodeBlockResults(
            name=str(block['name']),
            num_timepoints=int(block['num_timepoints']),
            num_calls=int(block['num_calls']),
            num_non_empty_calls=int(block['num_non_empty_calls']),
            num_unfinished_calls=int(block.get('num_unfinished_calls', 0)),  # not in files of gpu-tracker 5
            compute_time=block['compute_time'],
            resource_usage=block['resource_usage'],
        )
        for block in values['code_block_results']
    ]
    return SubTrackingResults(values['overall'], values['static_data'], blocks)


def from_json(values: str) -> SubTrackingResults:
    """Return the results that a JSON text holds; what a pickled object of them calls."""
    return from_plain(json.loads(values))


for _public in (CodeBlockResults, SubTrackingResults):
    _public.__module__ = 'gpu_tracker.sub_tracker'
