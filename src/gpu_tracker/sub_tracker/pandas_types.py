"""The types of pandas that gpu-tracker 5 promises, made from plain values, and plain values from them."""

from __future__ import annotations

import math
from importlib import import_module
from typing import TYPE_CHECKING, Any

from gpu_tracker.errors import MissingPackageError
from gpu_tracker.sub_tracker.tracking_file import STATISTICS

if TYPE_CHECKING:
    from array import array
    from collections.abc import Mapping

    from gpu_tracker.sub_tracker.tracking_file import Statistics

    Table = Mapping[str, Statistics]
    """Statistics by measurement."""


def pandas(what: str) -> Any:  # noqa: ANN401 - the package need not be there
    """Return the package; raise MissingPackageError that says ``what`` needs it."""
    try:
        return import_module('pandas')
    except ImportError as error:
        from gpu_tracker.installation import package_command  # noqa: PLC0415 - only where the package is missing

        message = f'{what} is a type of pandas, which is not installed: {package_command("pandas")}'
        raise MissingPackageError(message) from error


def statistics_frame(table: Table, what: str) -> Any:  # noqa: ANN401 - a DataFrame
    """Return a DataFrame with a row a measurement and a column a statistic, NaN where unknown."""
    package = pandas(what)
    rows = {name: [statistics[key] for key in STATISTICS] for name, statistics in table.items()}
    return package.DataFrame.from_dict(rows, orient='index', columns=list(STATISTICS), dtype=float)


def number_series(values: Mapping[str, float | None], what: str) -> Any:  # noqa: ANN401 - a Series
    """Return a Series of floats, NaN where unknown."""
    return pandas(what).Series(dict(values), dtype=float)


def static_series(values: Mapping[str, Any], what: str) -> Any:  # noqa: ANN401 - a Series
    """Return what does not change as a Series of objects."""
    return pandas(what).Series(dict(values), dtype=object, name=0)


def timepoint_frame(columns: Mapping[str, array[float]], what: str) -> Any:  # noqa: ANN401 - a DataFrame
    """Return a DataFrame with a row a point of time; numbers of threads are whole numbers where all are known."""
    package = pandas(what)
    frame = package.DataFrame({name: list(values) for name, values in columns.items()}, dtype=float)
    for name in columns:
        if name.endswith('_n_threads') and not frame[name].isna().any():
            frame[name] = frame[name].astype(int)
    return frame


def plain_table(table: Any) -> dict[str, Statistics]:  # noqa: ANN401 - a mapping, or a DataFrame
    """Return statistics by measurement, from such a mapping or a DataFrame."""
    rows = table.to_dict('index') if hasattr(table, 'iterrows') else table
    return {str(name): {key: plain_number(row[key]) for key in STATISTICS} for name, row in rows.items()}


def plain_values(values: Any) -> dict[str, Any]:  # noqa: ANN401 - a mapping, or a Series
    """Return values by name, from a mapping or a Series."""
    pairs = values.to_dict() if hasattr(values, 'to_dict') else values
    return {str(name): value if isinstance(value, str) else plain_number(value) for name, value in pairs.items()}


def plain_number(value: Any) -> Any:  # noqa: ANN401 - of this and other libraries
    """Return a number of Python's own, None where it is unknown.

    :raises TypeError: where it is no number.
    """
    if value is None or type(value) is int:
        return value
    if isinstance(value, str | bytes):
        raise TypeError('not a number')
    if hasattr(value, 'item'):
        return plain_number(value.item())
    number = float(value)
    return None if math.isnan(number) else number
