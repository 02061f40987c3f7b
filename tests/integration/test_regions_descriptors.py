"""Regions of programs that close and open descriptors of their own."""

from __future__ import annotations

import os
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


def run(program, written, *arguments):
    """Run a program that writes to the log; return what it has printed to its standard error."""
    done = subprocess.run(
        [sys.executable, '-c', textwrap.dedent(program), *map(str, arguments)],
        env=written.environment,
        check=False,
        capture_output=True,
        text=True,
        timeout=TIMEOUT,
    )
    assert done.returncode == 0, done.stderr
    return done.stderr


def test_the_log_never_becomes_a_standard_stream_that_is_closed(written):
    told = run(
        """
        import os, sys
        import gpu_tracker as gput
        os.close(0)
        os.close(1)
        with gput.region('a'): pass
        os.write(2, f"{os.open('/dev/null', os.O_RDONLY)} {os.open('/dev/null', os.O_WRONLY)}".encode())
        os.write(1, b'what the program prints')
        with gput.region('b'): pass
        """,
        written,
    )
    assert told == '0 1'
    assert [begin.name for begin in written.begins] == ['a', 'b']
    assert len(written.ends) == 2


def test_no_line_goes_into_the_files_of_a_program_that_has_closed_all_others(written, tmp_path):
    run(
        """
        import os, sys
        import gpu_tracker as gput
        with gput.region('before'): pass
        with gput.region('around'):
            os.closerange(3, 1000)
            mine = [os.open(sys.argv[1] + str(number), os.O_WRONLY | os.O_CREAT) for number in range(20)]
            for _ in range(300):
                with gput.region('after'): pass
        for number in mine: os.write(number, b'mine')
        """,
        written,
        tmp_path / 'file',
    )
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == {f'file{n}': b'mine' for n in range(20)}
    singles = sum(begin.name == 'after' for begin in written.begins)
    assert singles + sum(fold.calls for fold in written.folds) == 300
    assert written.end('around').error is None


def test_a_log_that_takes_no_more_is_none_of_the_programs_concern(written, tmp_path):
    run(
        """
        import os, resource, signal
        import gpu_tracker as gput
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (300, resource.RLIM_INFINITY))
        for number in range(50):
            with gput.region('while full', number=number): pass
        resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
        with gput.region('with room again'): pass
        """,
        written,
    )
    whole = [line for line in written.lines if b'with room again' in line]
    assert len(whole) == 1
    assert whole[0].startswith(b'B\t')
    assert os.path.getsize(written.path) < 600
