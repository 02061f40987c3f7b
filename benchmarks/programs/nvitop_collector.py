"""Collects with nvitop what a process does on the GPUs, until SIGTERM: nvitop_collector.py PID INTERVAL FILE.

Into the file it writes the seconds between two of its samples.
"""

import signal
import sys
import time
from pathlib import Path

from nvitop import Device, ResourceMetricCollector  # type: ignore[import-not-found]

if __name__ == '__main__':
    pid, interval, path = sys.argv[1:]
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])
    collector = ResourceMetricCollector(Device.all(), root_pids={int(pid)}, interval=float(interval))
    times: list[float] = []
    take_snapshots = collector.take_snapshots

    def _counted() -> object:
        times.append(time.monotonic())
        return take_snapshots()

    collector.take_snapshots = _counted
    with collector(tag='benchmark'):
        signal.sigwait([signal.SIGTERM])
        collector.collect()
    Path(path).write_text(repr((times[-1] - times[0]) / (len(times) - 1)), encoding='ascii')
