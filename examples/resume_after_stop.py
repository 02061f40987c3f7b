"""A program for gpu-tracker idle: it saves its step when it is stopped, and continues there at the next start.

python examples/resume_after_stop.py [STEPS]
"""

from __future__ import annotations

import signal
import sys
import time
from pathlib import Path

STATE = Path('step.txt')
is_stopped = False


def stop(*_: object) -> None:
    """End after the current step."""
    global is_stopped  # noqa: PLW0603 - a signal handler has no other way to the loop
    is_stopped = True


signal.signal(signal.SIGTERM, stop)
last_step = int(sys.argv[1]) if len(sys.argv) > 1 else 1000
step = int(STATE.read_text()) if STATE.exists() else 0
print('starting at step', step, flush=True)
while step < last_step and not is_stopped:
    time.sleep(0.1)  # your computation
    step += 1
unfinished = STATE.with_suffix('.new')
unfinished.write_text(str(step))
unfinished.replace(STATE)  # a kill while writing leaves the old file
print('saved step', step)
