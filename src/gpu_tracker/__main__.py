"""``python -m gpu_tracker`` is ``gpu-tracker``."""

from __future__ import annotations

import sys

from gpu_tracker.cli import main

if __name__ == '__main__':
    sys.exit(main())
