"""The programs in examples/loggers, which the documentation shows, with MLflow, TensorBoard, W&B and LightGBM.

In the checkout their environment is made by ``sh scripts/test.sh clients``; GPU_TRACKER_LOGGERS names another one's
interpreter.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
from pathlib import Path

import pytest

from support.tracked_program import environment
from support.waiting import TIMEOUT

_CHECKOUT = Path(__file__).resolve().parents[2]
_VARIABLE = 'GPU_TRACKER_LOGGERS'
_USUAL = _CHECKOUT / '.venv-loggers' / 'bin' / 'python'
_OFFLINE = {
    'MLFLOW_ALLOW_FILE_STORE': 'true',
    'MLFLOW_DISABLE_TELEMETRY': 'true',
    'MLFLOW_TRACKING_URI': './mlruns',
    'WANDB_MODE': 'offline',
}
_READ_SCALARS = """
import json
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tensorboard.util.tensor_util import make_ndarray
read = EventAccumulator('logs')
read.Reload()
print(json.dumps({
    tag: [float(make_ndarray(event.tensor_proto)) for event in read.Tensors(tag)] for tag in read.Tags()['tensors']
}))
"""


def run(folder: Path, *words: str) -> str:
    """Run a program with the packages, and return what it prints; skip the test if they are not installed."""
    interpreter = os.environ.get(_VARIABLE) or str(_USUAL)
    if not os.path.exists(interpreter):
        pytest.skip(f'needs MLflow, TensorBoard, W&B and LightGBM in .venv-loggers, or {_VARIABLE}')
    finished = subprocess.run(
        [interpreter, *words],
        cwd=folder,
        env=environment(_OFFLINE),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=TIMEOUT,
        check=False,
    )
    assert finished.returncode == 0, finished.stderr
    return finished.stdout


def example(name: str) -> str:
    return str(_CHECKOUT / 'examples' / 'loggers' / f'{name}.py')


def assert_has_grown(megabytes: list[float]) -> None:
    """Check three figures of a program that takes 30 MB more each 1.2 s; they are published once a second."""
    first, _, last = megabytes
    assert megabytes == sorted(megabytes)
    assert 29 <= last - first < 70


def test_mlflow(tmp_path: Path) -> None:
    run(tmp_path, example('with_mlflow'))
    (logged,) = tmp_path.glob('mlruns/0/*/metrics')
    assert sorted(os.listdir(logged)) == ['mean_cpu_percent', 'peak_gpu_ram', 'peak_ram', 'seconds']
    lines = [line.split() for line in (logged / 'peak_ram').read_text().splitlines()]
    assert [step for _, _, step in lines] == ['0', '1', '2']
    assert_has_grown([float(value) for _, value, _ in lines])
    usage = json.loads((logged.parent / 'artifacts' / 'usage.json').read_text())
    assert usage['max_ram']['combined']['total_rss'] >= float(lines[-1][1])


def test_tensorboard(tmp_path: Path) -> None:
    run(tmp_path, example('with_tensorboard'))
    found = json.loads(run(tmp_path, '-c', _READ_SCALARS))
    assert sorted(found) == ['usage/mean_cpu_percent', 'usage/peak_gpu_ram', 'usage/peak_ram', 'usage/seconds']
    assert_has_grown(found['usage/peak_ram'])


def test_weights_and_biases_without_a_network(tmp_path: Path) -> None:
    run(tmp_path, example('with_wandb'))
    (logged,) = tmp_path.glob('wandb/offline-run-*/run-*.wandb')
    found = [float(value) for value in re.findall(rb'peak_ram\W{1,4}([0-9.]+)', logged.read_bytes())][:3]
    assert len(found) == 3
    assert found == sorted(found)  # its service, a child of the program, has less memory after its start


def test_a_callback_of_lightgbm(tmp_path: Path) -> None:
    printed = run(tmp_path, example('with_lightgbm')).splitlines()
    assert [line.split()[0] for line in printed] == ['0', '100', '200']
    assert all(re.fullmatch(r'\d+ [\d.]+ MB', line) for line in printed)
