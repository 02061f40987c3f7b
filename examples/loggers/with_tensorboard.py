"""Log to TensorBoard what a training has used so far, after each epoch."""

import time

from tensorboard.summary import Writer

import gpu_tracker as gput
from figures import figures_of

weights = []
writer = Writer('logs')  # or torch.utils.tensorboard.SummaryWriter
with gput.Tracker(ram_unit='MB', gpu_ram_unit='MB', time_unit='s') as tracker:
    for epoch in range(3):
        weights.append(b'x' * 30_000_000)
        time.sleep(1.2)  # train
        for name, value in figures_of(tracker.so_far()).items():
            writer.add_scalar(f'usage/{name}', value, epoch)
writer.close()
