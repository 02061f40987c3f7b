"""The configuration files of gpu-tracker 5: JSON objects with parameters."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from gpu_tracker.errors import GpuTrackerError
from gpu_tracker.running.options import OPTIONS

if TYPE_CHECKING:
    from gpu_tracker.cli.options import Values


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
        raise GpuTrackerError(f'{option}: {path} is not a JSON file: {error}') from error
    if not isinstance(found, dict):
        raise GpuTrackerError(f'{option}: {path} must contain a JSON object')
    return found


def set_options(values: Values, path: str) -> list[str]:
    """Set missing options from parameters of Tracker in a file; return names without an option.

    :raises GpuTrackerError: The file cannot be used, or a switch is neither true nor false.
    """
    options = {option.name: option for option in OPTIONS if option.flag}
    unknown = []
    for name, value in read_object('--tconfig', path).items():
        option = options.get(name)
        if option is None:
            unknown.append(name)
        elif option.flag not in values.written and value is not None:
            if not option.value and not isinstance(value, bool):
                raise GpuTrackerError(f'{name} in {path} must be true or false, not {value!r}')
            text = ','.join(map(str, value)) if isinstance(value, list) else str(value)
            values[option.flag] = text if option.value else value
            values.written[option.flag] = f'{name} in {path}'
    return unknown
