from __future__ import annotations

import subprocess
import threading

from gpu_tracker.processes import descendants
from support.waiting import eventually


def test_children_of_all_threads_are_found_both_ways() -> None:
    started: list[subprocess.Popen[bytes]] = []
    done = threading.Event()

    def start() -> None:
        started.append(subprocess.Popen(['sleep', '3600']))
        done.wait()

    thread = threading.Thread(target=start)
    thread.start()
    try:
        started.append(subprocess.Popen(['sleep', '3600']))
        eventually(lambda: len(started) == 2)
        pids = {process.pid for process in started}
        assert pids <= set(descendants._listed_children())
        assert pids <= set(descendants._found_children())
        assert pids <= set(descendants.all_children())
    finally:
        for process in started:
            process.kill()
            process.wait()
        done.set()
        thread.join()
