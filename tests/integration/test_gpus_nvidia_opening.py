"""What stands in the way of opening the driver of NVIDIA GPUs, and how it is told."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import gpu_tracker
from support.gpus.gpu_machine import GB, Machine
from support.simulated_nvml import UNKNOWN, Failure, Gpu
from support.simulated_nvml.probe import Probe
from support.tracked_program import run

OPEN = """
import json
from gpu_tracker.errors import GpuError
from gpu_tracker.gpus.nvidia import open_backend

try:
    open_backend()
except GpuError as error:
    print(json.dumps([error.cause, str(error)]))
"""

TRACK = """
import json
from gpu_tracker import Tracker

with Tracker(sleep_time=0.1) as tracker:
    memory = bytes(10_000_000)
print(json.dumps(tracker.to_json()))
"""

OLD_PYNVML = """
NVML_ERROR_FUNCTION_NOT_FOUND = 13
NVML_ERROR_INVALID_ARGUMENT = 2
NVML_ERROR_NOT_SUPPORTED = 3

class NVMLError(Exception):
    pass
"""
"""Of the package pynvml 11.4.1, what is asked first; it has nothing of 2022 and later."""


pytestmark = pytest.mark.machine(gpus=[Gpu(total=GB)])


@pytest.fixture
def hidden(machine: Machine, tmp_path: Path) -> dict[str, str]:
    """Give the environment of a machine on which the old package pynvml hides nvidia-ml-py.

    It lies beside gpu-tracker, as in one environment: the sampler looks there first.
    """
    package = tmp_path / 'old' / 'pynvml'
    package.mkdir(parents=True)
    (package / '__init__.py').write_text(OLD_PYNVML)
    (package.parent / 'gpu_tracker').symlink_to(Path(gpu_tracker.__file__).parent)
    environment = machine.environment()
    return environment | {'PYTHONPATH': f'{package.parent}:{environment["PYTHONPATH"]}'}


def explanation(tmp_path: Path) -> str:
    return (
        f"The Python package 'pynvml' ({tmp_path}/old/pynvml/__init__.py) hides nvidia-ml-py, with which gpu-tracker "
        'reads NVIDIA GPUs: both packages have the import name pynvml. GPU figures are unknown until you run '
        '"pip uninstall pynvml" and then "pip install --force-reinstall nvidia-ml-py".'
    )


def test_another_package_that_hides_nvidia_ml_py(machine: Machine, hidden: dict[str, str], tmp_path: Path) -> None:
    assert machine.answer(OPEN, env=hidden) == ['foreign-pynvml', explanation(tmp_path)]


def test_a_hidden_nvidia_ml_py_ends_no_run(hidden: dict[str, str], tmp_path: Path) -> None:
    with Probe(hidden) as probe:
        assert probe.begin('11')['system'] is None
        assert probe.finish()['system'] is None
        assert probe.messages() == [['warning', explanation(tmp_path)]]


def test_a_tracker_with_a_hidden_nvidia_ml_py_warns_and_goes_on(hidden: dict[str, str], tmp_path: Path) -> None:
    finished = run(TRACK, env=hidden)
    report = json.loads(finished.stdout)
    assert finished.stderr.splitlines() == [explanation(tmp_path)]
    assert report['max_gpu_ram']['system'] is None
    assert report['max_ram']['main']['total_rss'] > 0


def test_a_driver_that_does_not_count_its_gpus(machine: Machine) -> None:
    machine.write(gpus=[Gpu(total=GB)], fail=[Failure('nvmlDeviceGetCount*', UNKNOWN)])
    text = (
        'The NVIDIA driver could not be initialized: it reports an unknown error (NVML code 999), as after a suspend '
        'or a crash of the driver. GPU figures are unknown. See "gpu-tracker explain driver-fails".'
    )
    assert machine.answer(OPEN) == ['unknown-error', text]
    with Probe(machine.environment()) as probe:
        assert probe.begin('11')['system'] is None
        assert probe.messages() == [['warning', text]]
