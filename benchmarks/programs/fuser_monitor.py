"""Runs a program while nobody has one of the devices open, as far as fuser tells: what a simple monitor does.

    fuser_monitor.py INTERVAL DEVICE... [-- COMMAND...]

Each interval, in seconds, it asks fuser once for all devices. Where anybody but the program has one of them open, the
program gets SIGKILL; where nobody has, it is started if it does not run. Its descendants get nothing and count as
others. Without a command it only asks.
"""

import subprocess
import sys
import time


def _users(devices: list[str]) -> set[int]:
    """Return the processes that have one of the devices open."""
    asked = subprocess.run(['fuser', *devices], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=False)
    return {int(word) for word in asked.stdout.split()}


def _watch(interval: float, devices: list[str], command: list[str]) -> None:
    program: subprocess.Popen[bytes] | None = None
    due = time.monotonic()
    while True:
        others = _users(devices) - ({program.pid} if program is not None else set())
        if others and program is not None:
            program.kill()
            program.wait()
            program = None
        elif not others and command and (program is None or program.poll() is not None):
            program = subprocess.Popen(command)
        due = max(due + interval, time.monotonic())
        time.sleep(max(0.0, due - time.monotonic()))  # behind: once more at once


if __name__ == '__main__':
    words = sys.argv[1:]
    end = words.index('--') if '--' in words else len(words)
    _watch(float(words[0]), words[1:end], words[end + 1 :])
