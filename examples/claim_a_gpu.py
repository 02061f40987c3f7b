"""Train on a free GPU, and claim this GPU until the training ends."""

from __future__ import annotations

import os
import subprocess
import sys

import gpu_tracker as gput

with gput.claim_gpus(1, wait_seconds=60) as gpus:
    variables = {'CUDA_DEVICE_ORDER': 'PCI_BUS_ID', 'CUDA_VISIBLE_DEVICES': ','.join(gpus)}
    subprocess.run([sys.executable, 'examples/train.py'], env=os.environ | variables, check=True)
