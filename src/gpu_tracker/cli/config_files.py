"""The configuration files of gpu-tracker 5: JSON objects with parameters."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from gpu_tracker.errors import GpuTrackerError
from gpu_tracker.running.options import OPTIONS

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping


def read_object(option: str, path: str) -> dict[str, Any]:
    """Return the object in the JSON file of an option.

    :raises GpuTrackerError: if there is none.
    """
    try:
        with open(path, encoding='utf-8') as file:
            found = json.load(file)
    except OSError as error:
        raise GpuTrackerError(f'{option}: cannot read {path}: {error.strerror or error}') from error
    except (ValueError, RecursionError) as error:
        raise GpuTrackerError(f'{option}: {path} is no JSON file: {error}') from error
    if not isinstance(found, dict):
        raise GpuTrackerError(f'{option}: {path} must have a JSON object')
    return found


def option_values(parameters: Mapping[str, Any], given: Collection[str]) -> tuple[dict[str, str | bool], list[str]]:
    """Return the values of the options for parameters of Tracker, and the names that no option has.

    :raises GpuTrackerError: if a switch is neither true nor false.

    :param parameters: By name; None is the default.
    :param given: The options on the command line, which go before the file.
    """
    options = {option.name: option for option in OPTIONS if option.flag}
    found: dict[str, str | bool] = {}
    for name, value in parameters.items():
        option = options.get(name)
        if option is None or option.flag in given or value is None:
            continue
        if option.value:
            found[option.flag] = ','.join(map(str, value)) if isinstance(value, list) else str(value)
        elif isinstance(value, bool):
            found[option.flag] = value
        else:
            raise GpuTrackerError(f'--tconfig: {name} must be true or false, not {value!r}')
    return found, [name for name in parameters if name not in options]
