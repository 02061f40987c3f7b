"""Loops of the programs that tests run, which end with an error where what they wait for never happens."""

from __future__ import annotations

from support.waiting import TIMEOUT

_SECONDS = TIMEOUT - 10
"""So that a program ends by itself before the test gives it up, and ends whoever waits for it."""

UNTIL = f"""
import sys, time

def until(condition):
    latest = time.monotonic() + {_SECONDS}
    while not condition():
        if time.monotonic() > latest:
            sys.exit('it never happened')
        time.sleep(0.01)
"""
"""The beginning of a Python program: a function that waits until a condition is true."""


def until(condition: str) -> str:
    """Return the commands of a shell that wait until a command of it succeeds."""
    late = '[ $(date +%s) -lt $latest ] || { echo "it never happened" >&2; exit 1; }'
    return f'latest=$(($(date +%s) + {_SECONDS})); until {condition}; do {late}; sleep 0.01; done'
