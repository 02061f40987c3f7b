"""The comparison of gpu-tracker 5: one statistic of several runs beside each other, for each measurement and block."""

from __future__ import annotations

import copy
import logging
import os
from typing import TYPE_CHECKING, Any

from gpu_tracker.errors import ParameterError
from gpu_tracker.sub_tracker import results, text
from gpu_tracker.sub_tracker.timepoints import STATISTICS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gpu_tracker.sub_tracker.results import CodeBlockResults, SubTrackingResults

    Sessions = dict[str, float | None]
    """The value of each run, the smallest first and unknown ones last."""


class ComparisonResults:
    """One statistic of several runs.

    :ivar code_blocks_missing: Blocks missing in a run, with the runs that have them.
    :ivar overall_resource_usage: Values of the runs by measurement.
    :ivar code_block_resource_usage: Values by measurement and block.
    :ivar code_block_compute_time: Seconds by block.
    """

    def __init__(
        self,
        overall_resource_usage: Mapping[str, Sessions],
        code_block_resource_usage: Mapping[str, Mapping[str, Sessions]],
        code_block_compute_time: Mapping[str, Sessions],
        code_blocks_missing: Mapping[str, list[str]] | None = None,
    ) -> None:
        self.code_blocks_missing = dict(code_blocks_missing or {})
        self._values: dict[str, Any] = {
            'overall_resource_usage': overall_resource_usage,
            'code_block_resource_usage': code_block_resource_usage,
            'code_block_compute_time': code_block_compute_time,
            'code_blocks_missing': self.code_blocks_missing,
        }

    def __str__(self) -> str:
        """Return all values as text."""
        return text.comparison_text(self._values)

    @property
    def overall_resource_usage(self) -> dict[str, Any]:
        """By measurement, a :class:`pandas.Series` with the value of each run."""
        return _series(self._values['overall_resource_usage'])

    @property
    def code_block_resource_usage(self) -> dict[str, dict[str, Any]]:
        """By measurement and code block, a :class:`pandas.Series` with the value of each run."""
        return {name: _series(blocks) for name, blocks in self._values['code_block_resource_usage'].items()}

    @property
    def code_block_compute_time(self) -> dict[str, Any]:
        """By code block, a :class:`pandas.Series` with the time of each run."""
        return _series(self._values['code_block_compute_time'])

    def to_json(self) -> dict[str, Any]:
        """Return all values, unknown ones as None."""
        return copy.deepcopy(self._values)


class TrackingComparison:
    """Compares results of several runs.

    Blocks with the same name are compared. Blocks named by line are compared in order if each run has as many of that
    path.

    :ivar results_map: :class:`~gpu_tracker.sub_tracker.SubTrackingResults` by name of the run.

    :param file_path_map: Path of the results in JSON by name of the run.
    :raises ValueError: if there is no run, or a file has no results.
    :raises OSError: if a file cannot be read.
    """

    def __init__(self, file_path_map: Mapping[str, str | os.PathLike[str]]) -> None:
        if not file_path_map:
            raise ParameterError('file_path_map', file_path_map, 'a mapping from names of runs to paths of results')
        self.results_map = {str(name): results.read_results(os.fsdecode(path)) for name, path in file_path_map.items()}

    def compare(self, statistic: str = 'mean') -> ComparisonResults:
        """Return a :class:`~gpu_tracker.sub_tracker.ComparisonResults` of ``min``, ``max``, ``mean`` or ``std``.

        :raises ValueError: if ``statistic`` is another.
        """
        if statistic not in STATISTICS:
            raise ParameterError('statistic', statistic, f'one of {", ".join(STATISTICS)}')
        runs = {run: found.to_json()['overall'] for run, found in self.results_map.items()}
        blocks = {
            name: {run: block.to_json() for run, block in sessions.items()}
            for name, sessions in _matched(self.results_map).items()
        }
        measurements = dict.fromkeys(name for overall in runs.values() for name in overall)

        def of(tables: Mapping[str, Any], measurement: str) -> Sessions:
            return _ordered({run: table.get(measurement, {}).get(statistic) for run, table in tables.items()})

        usage = {
            measurement: {
                name: of({run: block['resource_usage'] for run, block in sessions.items()}, measurement)
                for name, sessions in blocks.items()
            }
            for measurement in (measurements if blocks else ())
        }
        times = {
            name: _ordered({run: block['compute_time'][statistic] for run, block in sessions.items()})
            for name, sessions in blocks.items()
        }
        missing = {name: list(sessions) for name, sessions in blocks.items() if len(sessions) < len(runs)}
        return ComparisonResults({name: of(runs, name) for name in measurements}, usage, times, missing)


def _matched(runs: Mapping[str, SubTrackingResults]) -> dict[str, dict[str, CodeBlockResults]]:
    """Return, by common name and run, the blocks that belong together."""
    groups: dict[tuple[str, bool], dict[str, list[CodeBlockResults]]] = {}
    for run, found in runs.items():
        for block in sorted(found.code_block_results, key=lambda block: _path_and_line(block.name)):
            path, line = _path_and_line(block.name)
            groups.setdefault((path, line >= 0), {}).setdefault(run, []).append(block)
    matched: dict[str, dict[str, CodeBlockResults]] = {}
    for sessions in groups.values():
        if len(sessions) == len(runs) and len({len(blocks) for blocks in sessions.values()}) == 1:
            for together in zip(*sessions.values(), strict=True):
                names = sorted({block.name for block in together})
                matched[' -> '.join(names)] = dict(zip(sessions, together, strict=True))
                if len(names) > 1:
                    warning = 'These code blocks are compared as one, since only their lines differ: %s.'
                    logging.getLogger('gpu_tracker').warning(warning, ', '.join(names))
        else:
            for run, blocks in sessions.items():
                for block in blocks:
                    matched.setdefault(block.name, {})[run] = block
    return matched


def _path_and_line(name: str) -> tuple[str, int]:
    """Return the path and the line of a name; the name and -1 if it has no line."""
    path, _, line = name.rpartition(':')
    return (path, int(line)) if line.isascii() and line.isdigit() and path else (name, -1)


def _ordered(sessions: Sessions) -> Sessions:
    """Return the values in their order, unknown ones last."""
    return dict(sorted(sessions.items(), key=lambda item: (item[1] is None, item[1] or 0.0)))


def _series(values: Mapping[str, Sessions]) -> dict[str, Any]:
    return {name: results.number_series(sessions, 'ComparisonResults') for name, sessions in values.items()}
