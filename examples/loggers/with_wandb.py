"""Log to Weights & Biases what a training has used so far, after each epoch."""

import time

import wandb

import gpu_tracker as gput
from figures import figures_of

weights = []
with (
    wandb.init(project='training') as run,
    gput.Tracker(ram_unit='MB', gpu_ram_unit='MB', time_unit='s') as tracker,
):
    for epoch in range(3):
        weights.append(b'x' * 30_000_000)
        time.sleep(1.2)  # train
        run.log({'epoch': epoch} | figures_of(tracker.so_far()))
