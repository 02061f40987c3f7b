"""GPU memory and utilization of AMD GPUs beside what gpu-tracker 5.0.1 reports, which asks amd-smi.

Its sizes of GPUs are MiB that are called megabytes: 4.6 % less than there are. It counts the memory of a client once
for each process that shares it, and that of APUs without what they have in RAM.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from support.cli_program import text_of
from support.gpus import amd_smi
from support.gpus.drm_tree import DrmTree, browser, dump
from support.sub_tracking import environment_501, python_501
from support.tracked_program import environment
from support.waiting import TIMEOUT, eventually

if TYPE_CHECKING:
    from pathlib import Path

PROGRAM = """
import json, os, subprocess, sys, time, warnings
import gpu_tracker

warnings.simplefilter('ignore')
child = subprocess.Popen(['cat'], stdin=subprocess.PIPE)
print(json.dumps([os.getpid(), child.pid]), flush=True)
input()
options = dict(zip(['resource_usage_file'], sys.argv[2:]))
tracker = gpu_tracker.Tracker(sleep_time=0.2, gpu_ram_unit='megabytes', gpu_brand='amd', disable_logs=True, **options)
with tracker:
    time.sleep(float(sys.argv[1]))
    input()
print(json.dumps(tracker.to_json()))
"""


class Figures(NamedTuple):
    """What a report says of GPUs: megabytes, and percent."""

    main: float
    descendants: float
    combined: float
    capacity: float
    system: float
    utilization: float


OURS = {
    'amdgpu_gaming': Figures(3649.04448, 557.494272, 4206.538752, 17163.091968, 4294.967296, 73.0),
    'amdgpu_compute': Figures(2800.021504, 0.0, 2800.021504, 411645.771776, 3397.365504, 97.0),
    'amdgpu_apu': Figures(580.562944, 48.082944, 628.645888, 9663.676416, 1317.011456, 35.0),
    'browser': Figures(838.8608, 0.0, 838.8608, 17163.091968, 4294.967296, 73.0),
}
OF_501 = {
    'amdgpu_gaming': Figures(3649.04448, 557.494272, 4206.538752, 16368.0, 4096.0, 73.0),
    'amdgpu_compute': Figures(2800.021504, 0.0, 2800.021504, 392576.0, 3239.0, 97.0),
    'amdgpu_apu': Figures(557.494272, 45.633536, 603.127808, 1024.0, 744.0, 35.0),
    'browser': Figures(838.8608, 838.8608, 1677.7216, 16368.0, 4096.0, 73.0),
}


def tracked(
    words: list[str], settings: dict[str, str], tree: DrmTree, case: str, seconds: float = 0.0, file: Path | None = None
) -> Figures:
    """Return what a program reports whose processes are those of a dump.

    :param seconds: How long it is tracked at least.
    :param file: Where it keeps its report: it is tracked until that has the memory of the processes.
    """
    lines = browser() if case == 'browser' else dump(case)
    tree.add([line for line in lines if line.startswith('/sys/')])
    with subprocess.Popen(
        [*words, '-c', PROGRAM, str(seconds), *([] if file is None else [str(file)])],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=settings,
    ) as process:
        assert process.stdout is not None
        main, child = json.loads(process.stdout.readline())
        tree.add_at_once(lines, {1001: main, 1002: child, 1003: 4_194_303, 1004: 4_194_302})
        assert process.stdin is not None
        process.stdin.write('\n')
        process.stdin.flush()
        if file is not None:
            eventually(lambda: text_of(file) and json.loads(text_of(file))['max_gpu_ram']['main'])
        printed, errors = process.communicate('\n', TIMEOUT)
    assert process.returncode == 0, errors
    report: dict[str, Any] = json.loads(printed)
    ram, percentages = report['max_gpu_ram'], report['gpu_utilization']['gpu_percentages']
    return Figures(
        ram['main'],
        ram['descendants'],
        ram['combined'],
        ram['system_capacity'],
        ram['system'],
        percentages['max_sum_percent'],
    )


@pytest.mark.parametrize('case', OURS)
def test_ours(tmp_path: Path, case: str) -> None:
    tree = DrmTree(tmp_path)
    found = tracked([sys.executable], environment(tree.environment()), tree, case, file=tmp_path / 'usage.json')
    assert found == pytest.approx(OURS[case])


@pytest.mark.parametrize('case', OF_501)
def test_those_of_501(tmp_path: Path, case: str) -> None:
    tree = DrmTree(tmp_path)
    amd_smi.install(tmp_path, tree.root)
    settings = environment_501() | {'PATH': f'{tmp_path}:{os.environ["PATH"]}'}
    assert tracked([python_501()], settings, tree, case, seconds=3.0) == pytest.approx(OF_501[case])
