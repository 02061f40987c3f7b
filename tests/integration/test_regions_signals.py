"""Handlers of signals and regions: what a handler raises, and regions that it opens."""

from __future__ import annotations

import subprocess
import sys
import textwrap

import pytest

from support.region_log import made_log
from support.waiting import TIMEOUT


@pytest.fixture
def written():
    with made_log(joined=False) as made:
        yield made


def run(program, written):
    done = subprocess.run(
        [sys.executable, '-c', textwrap.dedent(program)],
        env=written.environment,
        check=False,
        capture_output=True,
        text=True,
        timeout=TIMEOUT,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize('kind', ['ValueError', 'FileNotFoundError', 'KeyboardInterrupt'])
def test_a_time_limit_that_a_handler_raises_reaches_the_program(written, kind):
    told = run(
        f"""
        import signal
        import gpu_tracker as gput

        raised = reached = 0

        def limit(*_):
            global raised
            raised += 1
            raise {kind}

        with gput.region('first'): pass  # what is imported in it is not to be interrupted
        signal.signal(signal.SIGALRM, limit)
        for turn in range(100):
            before = raised
            try:
                signal.setitimer(signal.ITIMER_REAL, 0.0005 + turn % 10 * 0.0001)
                while raised == before:
                    with gput.region(f'step {{turn}}'): pass
            except {kind}:
                reached += 1
        print(raised, reached)
        """,
        written,
    )
    assert told == '100 100\n'
