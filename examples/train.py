"""A stand-in for a training: print the GPUs that it may use, and sleep for the given seconds."""

from __future__ import annotations

import os
import sys
import time

print('training on GPU', os.environ.get('CUDA_VISIBLE_DEVICES', '(any)'), flush=True)
time.sleep(float(sys.argv[1]) if len(sys.argv) > 1 else 0)
