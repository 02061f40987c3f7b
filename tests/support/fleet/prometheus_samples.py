"""Samples as Prometheus answers them, for one host with a few GPUs."""

from __future__ import annotations

from gpu_tracker.fleet.prometheus import queries
from gpu_tracker.fleet.prometheus.agents import Target
from gpu_tracker.fleet.prometheus.gpus import Answers
from gpu_tracker.fleet.prometheus.queries import Sample

NOW = 1_800_000_000.0
NODE01 = Target('gpu-tracker', 'node01:1080')


def sample(value: float | None = 1.0, target: Target = NODE01, **labels: str) -> Sample:
    """Return a sample of a target; the label ``name_`` stands for ``__name__``."""
    named = {'__name__' if key == 'name_' else key: text for key, text in labels.items()}
    return Sample({'job': target.job, 'instance': target.instance, **named}, value, NOW)


def gpu(index: str, target: Target = NODE01, **labels: str) -> Sample:
    """Return what says that a GPU is there."""
    given = {
        'host': 'node01',
        'uuid': f'GPU-{index}',
        'model': 'NVIDIA H100',
        'pci_bus_id': f'00000000:0{index[0]}:00.0',
    }
    return sample(target=target, index=index, **(given | labels))


def answers(*gpus: Sample, statuses=(), by_pid=(), by_user=(), **figures: list[Sample]) -> Answers:
    """Return answers; a figure goes by its name between ``gpu_tracker_gpu_`` and its unit."""
    listed = [
        next((samples for name, samples in figures.items() if figure.startswith(f'gpu_tracker_gpu_{name}')), [])
        for figure in queries.FIGURES
    ]
    return Answers(list(gpus), list(statuses), listed, list(by_pid), list(by_user))
