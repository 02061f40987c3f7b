"""A report as JSON: the fields of :mod:`gpu_tracker.cuda_probe.report`, unrounded, null for what is not known."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gpu_tracker.cuda_probe.report import CudaReport


def report_json(report: CudaReport, *, indent: int | None = 2) -> str:
    """Return a JSON object, without a line break at its end; with an ``indent`` of None it is one line."""
    return json.dumps(asdict(report), indent=indent)


def problem_json(problem: str, *, indent: int | None = 2) -> str:
    """Return what stands in place of a report where the probe could not look: an object with one key, ``problem``."""
    return json.dumps({'problem': problem}, indent=indent)
