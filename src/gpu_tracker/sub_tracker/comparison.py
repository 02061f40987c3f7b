"""The comparison of gpu-tracker 5: one statistic of several runs beside each other, for each measurement and block."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from gpu_tracker.errors import ParameterError
from gpu_tracker.sub_tracker import pandas_types, text
from gpu_tracker.sub_tracker.results_file import read_results
from gpu_tracker.sub_tracker.timepoints import STATISTICS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gpu_tracker.sub_tracker.results import CodeBlockResults, SubTrackingResults

    Sessions = dict[str, float | None]
    """A value a run, the smallest first and unknown ones last."""

_LONGEST_LINE = 10
"""Digits: longer ones are no number of a line."""


class ComparisonResults:
    """One statistic of several runs beside each other.

    :ivar code_blocks_missing: The blocks that are not in all runs, with the names of the runs that they are in.

    :param overall_resource_usage: By measurement, the value of each run.
    :param code_block_resource_usage: By measurement and code block, the value of each run.
    :param code_block_compute_time: By code block, the time of each run in seconds.
    """

    def __init__(
        self,
        overall_resource_usage: Mapping[str, Any],
        code_block_resource_usage: Mapping[str, Mapping[str, Any]],
        code_block_compute_time: Mapping[str, Any],
        code_blocks_missing: Mapping[str, list[str]] | None = None,
    ) -> None:
        plain = pandas_types.plain_values
        self._overall = {name: plain(values) for name, values in overall_resource_usage.items()}
        self._blocks = {
            measurement: {name: plain(values) for name, values in blocks.items()}
            for measurement, blocks in code_block_resource_usage.items()
        }
        self._times = {name: plain(values) for name, values in code_block_compute_time.items()}
        self.code_blocks_missing = dict(code_blocks_missing or {})

    def __eq__(self, other: object) -> bool:
        """Return whether all values are the same."""
        return isinstance(other, ComparisonResults) and self.to_json() == other.to_json()

    __hash__ = None  # type: ignore[assignment]  # as in gpu-tracker 5

    def __repr__(self) -> str:
        """Return how much is compared."""
        return f'<ComparisonResults: {len(self._overall)} measurements, {len(self._times)} code blocks>'

    def __str__(self) -> str:
        """Return all values as text."""
        return text.comparison_text(self.to_json())

    @property
    def overall_resource_usage(self) -> dict[str, Any]:
        """By measurement, a :class:`pandas.Series` with the value of each run."""
        return _series(self._overall, 'ComparisonResults.overall_resource_usage')

    @property
    def code_block_resource_usage(self) -> dict[str, dict[str, Any]]:
        """By measurement and code block, a :class:`pandas.Series` with the value of each run."""
        what = 'ComparisonResults.code_block_resource_usage'
        return {measurement: _series(blocks, what) for measurement, blocks in self._blocks.items()}

    @property
    def code_block_compute_time(self) -> dict[str, Any]:
        """By code block, a :class:`pandas.Series` with the time of each run."""
        return _series(self._times, 'ComparisonResults.code_block_compute_time')

    def to_json(self) -> dict[str, Any]:
        """Return all values, unknown ones as None."""
        return {
            'overall_resource_usage': {name: dict(values) for name, values in self._overall.items()},
            'code_block_resource_usage': {
                measurement: {name: dict(values) for name, values in blocks.items()}
                for measurement, blocks in self._blocks.items()
            },
            'code_block_compute_time': {name: dict(values) for name, values in self._times.items()},
            'code_blocks_missing': {name: list(sessions) for name, sessions in self.code_blocks_missing.items()},
        }


class TrackingComparison:
    """Several runs, whose results lie in files, to compare.

    Code blocks are compared that have the same name. Of those that are named by path and line, the first of each run
    are compared with each other, the second and so on, where each run has as many of that path: lines move.

    :ivar results_map: The :class:`~gpu_tracker.sub_tracker.SubTrackingResults` of each run by its name.

    :param file_path_map: By name of a run, the path of its results: of ``gpu-tracker sub-track analyze -f json``, or
        pickled by this gpu-tracker. Pickles of others are refused, since loading one could run any code.
    :raises ValueError: where there is no run, or a file has no results; OSError: where it cannot be read.
    """

    def __init__(self, file_path_map: Mapping[str, str | os.PathLike[str]]) -> None:
        if not file_path_map:
            raise ParameterError('file_path_map', file_path_map, 'the paths of results by the names of runs')
        self.results_map = {str(name): read_results(os.fsdecode(path)) for name, path in file_path_map.items()}

    def compare(self, statistic: str = 'mean') -> ComparisonResults:
        """Return one statistic of all runs: ``min``, ``max``, ``mean`` or ``std``.

        :raises ValueError: where it is another.
        """
        if statistic not in STATISTICS:
            raise ParameterError('statistic', statistic, f'one of {", ".join(STATISTICS)}')
        runs = {name: results.to_json() for name, results in self.results_map.items()}
        measurements = list(dict.fromkeys(name for run in runs.values() for name in run['overall']))
        overall = {
            measurement: _ordered({name: _value(run['overall'], measurement, statistic) for name, run in runs.items()})
            for measurement in measurements
        }
        blocks = _matched(self.results_map)
        usage: dict[str, dict[str, Sessions]] = {}
        for measurement in measurements if blocks else ():
            usage[measurement] = {
                name: _ordered(
                    {run: _value(block['resource_usage'], measurement, statistic) for run, block in sessions.items()}
                )
                for name, sessions in blocks.items()
            }
        times = {
            name: _ordered({run: block['compute_time'][statistic] for run, block in sessions.items()})
            for name, sessions in blocks.items()
        }
        missing = {name: list(sessions) for name, sessions in blocks.items() if len(sessions) < len(runs)}
        return ComparisonResults(overall, usage, times, missing)


def _matched(results: Mapping[str, SubTrackingResults]) -> dict[str, dict[str, dict[str, Any]]]:
    """Return the blocks that belong together, by their name, as ``to_json()`` of each run that has one."""
    by_line: dict[str, dict[str, list[CodeBlockResults]]] = {}
    for run, result in results.items():
        for block in result.code_block_results:
            path, line = _path_and_line(block.name)
            if line is not None:
                by_line.setdefault(path, {}).setdefault(run, []).append(block)
    names: dict[tuple[str, str], str] = {}
    for sessions in by_line.values():
        counts = {len(blocks) for blocks in sessions.values()}
        if len(sessions) == len(results) and len(counts) == 1:
            names |= _names_by_place(sessions)
    matched: dict[str, dict[str, dict[str, Any]]] = {}
    for run, result in results.items():
        for block in sorted(result.code_block_results, key=_place):
            name = names.get((run, block.name), block.name)
            matched.setdefault(name, {})[run] = block.to_json()
    return matched


def _names_by_place(sessions: Mapping[str, list[CodeBlockResults]]) -> dict[tuple[str, str], str]:
    """Return, by run and name, what the blocks of one source file are called together."""
    names: dict[tuple[str, str], str] = {}
    ordered = [sorted(blocks, key=_place) for blocks in sessions.values()]
    for together in zip(*ordered, strict=True):
        distinct = sorted({block.name for block in together}, key=_line)
        name = ' -> '.join(distinct)
        names |= {(run, block.name): name for run, block in zip(sessions, together, strict=True)}
        if len(distinct) > 1:
            import logging  # noqa: PLC0415 - rarely needed

            logging.getLogger('gpu_tracker').warning(
                'These code blocks are compared as one, since only their lines differ: %s.', ', '.join(distinct)
            )
    return names


def _path_and_line(name: str) -> tuple[str, int | None]:
    path, colon, line = name.rpartition(':')
    is_line = colon and line.isascii() and line.isdigit() and len(line) < _LONGEST_LINE
    return (path, int(line)) if is_line else (name, None)


def _place(block: CodeBlockResults) -> tuple[str, int]:
    path, line = _path_and_line(block.name)
    return path, line or 0


def _line(name: str) -> int:
    return _path_and_line(name)[1] or 0


def _value(table: Mapping[str, Mapping[str, Any]], measurement: str, statistic: str) -> float | None:
    return table.get(measurement, {}).get(statistic)


def _ordered(sessions: Sessions) -> Sessions:
    """Return the values in their order, unknown ones last."""
    return dict(sorted(sessions.items(), key=lambda item: (item[1] is None, item[1] or 0.0)))


def _series(values: Mapping[str, Mapping[str, float | None]], what: str) -> dict[str, Any]:
    return {name: pandas_types.number_series(sessions, what) for name, sessions in values.items()}


for _public in (ComparisonResults, TrackingComparison):
    _public.__module__ = 'gpu_tracker.sub_tracker'
