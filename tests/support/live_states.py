"""States of runs that tests draw."""

from __future__ import annotations

import math

from gpu_tracker.views.live.model import LiveFigure, ProcessState, RegionState, State
from gpu_tracker.views.live.quantities import BYTES, BYTES_PER_SECOND, PERCENT

GB = 1e9
SECONDS = 100.0


def figure(
    name: str, unit: str, values: list[float | None], *, whole: float | None = None, peak: float | None = None
) -> LiveFigure:
    """Return a figure with a value a second, the last one at :data:`SECONDS`."""
    first = SECONDS - len(values) + 1
    known = [value for value in values if value is not None]
    points = [(first + place, value) for place, value in enumerate(values)]
    last = known[-1] if known else None
    return LiveFigure(name, unit, values[-1], last, peak or max(known, default=None), whole, points)


RAM = figure('RAM', BYTES, [index * GB / 50 for index in range(101)], whole=16 * GB, peak=2.5 * GB)
CPU = figure('CPU', PERCENT, [150 + 150 * math.sin(index / 8) for index in range(101)], whole=400.0)
GPU_RAM = figure('GPU 0 RAM', BYTES, [None] * 40 + [9.5 * GB] * 61, whole=10 * GB)
GPU = figure('GPU 0', PERCENT, [0.0] * 50 + [80.0] * 51, whole=100.0)
NINE_GPUS = [(GPU_RAM._replace(name=f'GPU {number} RAM'), GPU._replace(name=f'GPU {number}')) for number in range(9)]
READ = figure('Disk read', BYTES_PER_SECOND, [*[0.0] * 100, 123456.0])
UNKNOWN = figure('CPU power', 'watts', [None] * 101)
OTHER_GPU = (
    (
        figure('GPU 1 RAM', BYTES, [GB / 2] * 101, whole=10 * GB),
        figure('GPU 1', PERCENT, [0.0] * 101, whole=100.0),
    ),
)
COMMAND = '/opt/conda/envs/training/bin/python train.py --epochs 10 --data /data/images --learning-rate 0.001 --seed 1'
PROCESSES = [ProcessState(4242, 'train.py', 187.4, 1_250_000_000, 9_500_000_000, COMMAND)]
PROCESSES += [
    ProcessState(4300 + index, f'worker-{index}', 25.0, 10**8 - index, 0, f'{COMMAND} --of-worker {index}')
    for index in range(11)
]
PROCESSES += [ProcessState(4999, 'a-process-with-a-name-that-is-long', None, None, None, None)]
REGIONS = [RegionState('training', 0, 3725.0), RegionState('epoch n=3', 1, 75.5), RegionState('load', 2, 0.34)]


def state(**changes: object) -> State:
    """Return a run in which there is some of everything."""
    whole = State(
        title='python train.py --epochs 10 --data /data/images --learning-rate 0.001',
        place='pid 4242 on node1',
        seconds=SECONDS,
        figures=(RAM, CPU, READ, UNKNOWN),
        gpus=((GPU_RAM, GPU),),
        other_gpus=OTHER_GPU,
        processes=PROCESSES,
        process_count=len(PROCESSES),
        regions=REGIONS,
        ending=None,
    )
    return whole._replace(**changes)  # type: ignore[arg-type] # those of State
