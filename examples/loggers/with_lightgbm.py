"""Print what a training with LightGBM has used so far, from a callback after each hundredth iteration."""

from collections.abc import Callable

import lightgbm
import numpy as np

import gpu_tracker as gput


def usage_of(tracker: gput.Tracker) -> Callable[[lightgbm.callback.CallbackEnv], None]:
    """Return a callback for ``lightgbm.train``."""

    def print_usage(environment: lightgbm.callback.CallbackEnv) -> None:
        if environment.iteration % 100 == 0:
            ram = tracker.so_far().max_ram.combined.total_rss
            print(environment.iteration, ram, 'MB')

    return print_usage


numbers = np.random.default_rng(1).random((2_000, 10))
data = lightgbm.Dataset(numbers, numbers.sum(axis=1))
parameters = {'verbose': -1, 'num_threads': 1}
with gput.Tracker(ram_unit='MB') as tracker:
    lightgbm.train(parameters, data, 300, callbacks=[usage_of(tracker)])
