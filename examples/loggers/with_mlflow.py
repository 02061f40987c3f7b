"""Log to MLflow what a training has used so far, after each epoch, and the whole result at the end."""

import time

import mlflow

import gpu_tracker as gput
from figures import figures_of

weights = []
with mlflow.start_run():
    with gput.Tracker(ram_unit='MB', gpu_ram_unit='MB', time_unit='s') as tracker:
        for epoch in range(3):
            weights.append(b'x' * 30_000_000)
            time.sleep(1.2)  # train
            mlflow.log_metrics(figures_of(tracker.so_far()), step=epoch)
    mlflow.log_dict(tracker.to_json(), 'usage.json')
