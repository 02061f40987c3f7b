"""Stands for a program that uses GPUs: says which it may use, and takes as many seconds as it is told to."""

from __future__ import annotations

import os
import sys
import time

print('training on GPU', os.environ.get('CUDA_VISIBLE_DEVICES', '(any)'), flush=True)
time.sleep(float(sys.argv[1]) if len(sys.argv) > 1 else 0)
