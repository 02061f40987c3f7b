"""The manifest of an Indexed Job of Kubernetes: its command is run as in pods, each with its host name and index.

There is no cluster here: what Kubernetes itself would say of the manifest is not checked.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from support.engines.own_machine import OwnMachine
from support.engines.recipe import RANK, merged_report, without_launchers

_MANIFEST = Path(__file__).parents[2] / 'deploy' / 'kubernetes' / 'indexed-job.yaml'


@pytest.fixture
def manifest() -> dict[str, Any]:
    return yaml.safe_load(_MANIFEST.read_text(encoding='ascii'))


@pytest.fixture
def container(manifest: dict[str, Any]) -> dict[str, Any]:
    (only,) = manifest['spec']['template']['spec']['containers']
    return only


def test_the_manifest_is_that_of_an_indexed_job(manifest: dict[str, Any]):
    assert (manifest['apiVersion'], manifest['kind']) == ('batch/v1', 'Job')
    assert manifest['spec']['completionMode'] == 'Indexed'
    assert manifest['spec']['completions'] == 4
    assert manifest['spec']['template']['spec']['restartPolicy'] == 'Never'


def test_the_number_of_pods_is_the_number_of_ranks(manifest: dict[str, Any], container: dict[str, Any]):
    values = {entry['name']: entry.get('value') for entry in container['env']}
    assert values == {'GPU_TRACKER_SIZE': str(manifest['spec']['completions']), 'GPU_TRACKER_NODE': None}


def test_the_folder_of_the_job_is_on_the_volume(manifest: dict[str, Any], container: dict[str, Any]):
    (mount,) = container['volumeMounts']
    (volume,) = manifest['spec']['template']['spec']['volumes']
    assert mount['name'] == volume['name']
    assert 'persistentVolumeClaim' in volume
    assert f'--job={mount["mountPath"]}/{manifest["metadata"]["name"]}' in container['command']


def test_pods_have_one_report(tmp_path: Path, container: dict[str, Any]):
    program, *options = container['command'][: container['command'].index('--')]
    assert program == 'gpu-tracker'
    options = [option.replace('/usage', str(tmp_path)) for option in options]
    for index in (0, 1, 3):
        own = {'JOB_COMPLETION_INDEX': str(index), 'GPU_TRACKER_SIZE': '4', 'GPU_TRACKER_NODE': f'worker-{index % 2}'}
        folder = tmp_path / f'pod-{index}'
        folder.mkdir()
        with OwnMachine(folder, f'train-{index}') as pod:
            command = [sys.executable, '-m', 'gpu_tracker', *options, '--', sys.executable, '-c', RANK]
            finished = pod.run(*command, folder=folder, env=without_launchers() | own)
        assert (finished.returncode, finished.stdout) == (0, 'ran\n'), finished.stderr
    report = merged_report(tmp_path / 'train')
    assert (report['launchers'], report['jobs']) == (['kubernetes'], ['train'])
    assert (report['ranks_expected'], report['never_started'], report['problems']) == (4, ['2'], [])
    assert [(rank['rank'], rank['node'], rank['state']) for rank in report['ranks']] == [
        (0, 'worker-0', 'ended'),
        (1, 'worker-1', 'ended'),
        (3, 'worker-1', 'ended'),
    ]
