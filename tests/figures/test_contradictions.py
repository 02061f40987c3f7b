"""Children that live less than an interval: what is said of main, of descendants and of both goes together."""

from __future__ import annotations

import shlex
import sys

import pytest

from support.truth import MEGABYTE, command, tracked
from support.truth.figures import contradictions, wrong_ram

TRACKER = "gput.Tracker(ram_unit='bytes', time_unit='seconds')"  # at the interval that nobody has chosen
FEW = 20 * MEGABYTE
"""What an interpreter or a shell has beside what it is written for."""
PARTS = ('total_rss', 'private_rss', 'shared_rss')


def growing(size: int, seconds: float) -> list[str]:
    """Return the words of a program that grows to its end, and then prints its high-water mark."""
    return [sys.executable, '-m', 'support.truth.growing', str(size), str(seconds)]


@pytest.mark.parametrize('seconds', [0.8, 0.05])
def test_a_program_that_a_block_runs_is_measured_though_it_ends_between_two_samples(seconds: float) -> None:
    run = tracked(
        f"""
        with {TRACKER} as tracker:
            truth = int(subprocess.run(sys.argv[1:], capture_output=True, check=True).stdout)
        report(tracker, truth=truth, main=status(os.getpid(), 'VmHWM'))
        """,
        *growing(459 * MEGABYTE, seconds),
    )
    truth = run['truth']
    assert 459 * MEGABYTE < truth < 459 * MEGABYTE + FEW
    lowest = {'main': 0, 'descendants': truth, 'combined': truth}
    assert wrong_ram(run, lowest, {**lowest, 'main': run['main'], 'combined': truth + run['main']}) == []
    assert run['ram']['descendants']['total_rss'] >= 0.98 * truth  # its parent has reaped it, so its peak is known


def test_a_program_that_a_shell_starts_between_two_samples_is_in_descendants_as_well_as_in_combined() -> None:
    run = command('-e', f'sleep 0.7; {shlex.join(growing(300 * MEGABYTE, 0.15))}')
    truth = int(run['stdout'])
    assert 300 * MEGABYTE < truth < 300 * MEGABYTE + FEW
    lowest = {'main': 0, 'descendants': truth, 'combined': truth}
    assert wrong_ram(run, lowest, {'main': FEW, 'descendants': truth, 'combined': truth + FEW}) == []
    assert run['ram']['descendants']['total_rss'] >= 0.98 * truth


@pytest.mark.parametrize('seconds', [0.8, 0.05])
def test_a_command_that_ends_between_two_samples_has_its_mark_and_its_parts_are_marked(seconds: float) -> None:
    run = command('--', *growing(459 * MEGABYTE, seconds))
    truth = int(run['stdout'])
    nobody = {'main': truth, 'descendants': 0, 'combined': truth}
    assert wrong_ram(run, nobody, is_seen=True) == []
    assert run['ram']['combined'] == run['ram']['main']
    assert run['ram']['descendants'] == dict.fromkeys(PARTS, 0)


@pytest.mark.parametrize('child', ["subprocess.run(['/bin/true'])", 'os.waitpid(child(int), 0)'])
def test_descendants_that_no_sample_has_seen_are_unknown_and_never_nothing(child: str) -> None:
    run = tracked(
        f"""
        with {TRACKER} as tracker:
            {child}
        report(tracker)
        """
    )
    assert all(figure is None or figure > 0 for figure in (run['ram']['descendants'][part] for part in PARTS))
    assert contradictions(run) == []


def test_a_commands_descendants_that_no_sample_has_seen_are_unknown_and_never_nothing() -> None:
    run = command('-e', '/bin/true; echo 0')
    assert all(figure is None or figure > 0 for figure in (run['ram']['descendants'][part] for part in PARTS))
    assert contradictions(run) == []


def test_descendants_that_were_never_there_are_nothing_and_certain() -> None:
    run = command('--', sys.executable, '-c', 'block = bytearray(b"1") * 50_000_000')
    assert run['ram']['descendants'] == dict.fromkeys(PARTS, 0)
    assert contradictions(run) == []
    assert not any('descendants' in path for path in run['marked'])
