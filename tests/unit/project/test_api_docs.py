"""What docs/api.rst and docs/cli.rst say is all there is: each field of the results, and each option of the command."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import Any, get_args, get_type_hints

import pytest

from gpu_tracker.cli import track
from gpu_tracker.jobs.job_report import GroupKills, Imbalance, JobRegion, JobReport, NodeReport, RankReport, UsedGPU
from gpu_tracker.recording.reading.model import Bounded
from gpu_tracker.result import cuda_usage
from gpu_tracker.result.sampling import Sampling
from gpu_tracker.result.usage import Advice, ResourceUsage

DOCS = Path(__file__).parents[3] / 'docs'
PARTS_OF_JOB = {
    one.__name__: one for one in (Advice, Bounded, GroupKills, Imbalance, JobRegion, NodeReport, RankReport, UsedGPU)
}
LATER = {**vars(cuda_usage), **PARTS_OF_JOB, 'Mapping': Mapping}
"""What modules import for type checkers only, or name before they define it."""


def parts_of(hint: object) -> list[object]:
    """Return the types of which a type is made: X of ``tuple[X, ...] | None``."""
    return [part for argument in get_args(hint) for part in parts_of(argument)] or [hint]


def dataclasses_below(root: type[Any]) -> list[type[Any]]:
    """Return a dataclass and all that its fields are made of."""
    found = [root]
    for one in found:
        hints = get_type_hints(one, {**LATER, **vars(import_module(one.__module__))})
        for field in dataclasses.fields(one):
            found += [
                part for part in parts_of(hints[field.name]) if dataclasses.is_dataclass(part) and part not in found
            ]
    return found


def documentation_of(one: type[Any]) -> str:
    """Return the docstring of a class, with the docstring of another class that it refers to."""
    text = one.__doc__ or ''
    has_fields_of_process = one in {cuda_usage.CUDADevice, cuda_usage.CUDAFigures}
    return f'{text}{cuda_usage.CUDAProcess.__doc__}' if has_fields_of_process else text


@pytest.mark.parametrize('root', [ResourceUsage, JobReport, Sampling])
def test_every_field_of_a_result_is_documented(root: type[Any]) -> None:
    page = (DOCS / 'api.rst').read_text()
    classes = dataclasses_below(root)
    listed = re.findall(r'^\.\. autoclass:: gpu_tracker\.(?:.*\.)?(\w+)$', page, re.MULTILINE)
    assert [one.__name__ for one in classes if one.__name__ not in listed] == []
    missing = [
        f'{one.__name__}.{field.name}'
        for one in classes
        for field in dataclasses.fields(one)
        if not re.search(f':ivar {field.name}:|``{field.name}``', documentation_of(one))
    ]
    assert missing == []


def test_all_parts_of_a_result_are_found() -> None:
    names = {one.__name__ for one in dataclasses_below(ResourceUsage)}
    assert names >= {'RSSValues', 'OwnGroupUsage', 'JobIdentity', 'GPUEnergy', 'CUDAKernel'}
    assert {one.__name__ for one in dataclasses_below(JobReport)} == {'JobReport', *PARTS_OF_JOB}


def test_every_option_of_the_command_is_documented() -> None:
    text = '\n'.join(page.read_text() for page in DOCS.glob('*.rst'))
    options = [part.split('=')[0] for part in re.findall(r'^  (-.*?)(?:  |$)', track.TEXT, re.MULTILINE)]
    assert len(options) >= 30
    missing = [
        names
        for names in options
        if all(len(re.findall(rf'(?<![\w-]){name}(?![\w-])', text)) < 2 for name in re.findall(r'-[\w-]+', names))
    ]
    assert missing == [], 'they are in the text of --help alone'
