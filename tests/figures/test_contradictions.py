"""Children that live less than an interval: what is said of main, of descendants and of both goes together."""

from __future__ import annotations

import json
import shlex
import sys
from typing import TYPE_CHECKING, Any

import pytest

from support.cli_program import gpu_tracker
from support.truth import MEGABYTE, environment, tracked
from support.truth.figures import COUNTERS, contradictions

if TYPE_CHECKING:
    from pathlib import Path

TRACKER = "gput.Tracker(ram_unit='bytes', time_unit='seconds')"  # at the interval that nobody has chosen
FEW = 20 * MEGABYTE
"""What an interpreter or a shell has beside what it is written for."""
PARTS = ('total_rss', 'private_rss', 'shared_rss')


def growing(size: int, seconds: float) -> list[str]:
    """Return the words of a program that grows to its end, and then prints its high-water mark."""
    return [sys.executable, '-m', 'support.truth.growing', str(size), str(seconds)]


def command_line(folder: Path, *arguments: str) -> tuple[dict[str, Any], int]:
    """Return the RAM that a command has had, and the high-water mark that its program has printed."""
    report = folder / 'report'
    ended = gpu_tracker('-f', 'json', '--ru=bytes', '-o', str(report), *arguments, env=environment())
    assert ended.returncode == 0, ended.stderr
    return json.loads(report.read_text(encoding='utf-8'))['max_ram'], int(ended.stdout)


@pytest.mark.parametrize('seconds', [0.8, 0.05])
def test_a_program_that_a_block_runs_is_measured_though_it_ends_between_two_samples(seconds: float) -> None:
    run = tracked(
        f"""
        with {TRACKER} as tracker:
            truth = int(subprocess.run(sys.argv[1:], capture_output=True, check=True).stdout)
        report(tracker, truth=truth)
        """,
        *growing(459 * MEGABYTE, seconds),
    )
    ram, truth = run['ram'], run['truth']
    assert 459 * MEGABYTE < truth < 459 * MEGABYTE + FEW
    assert 0.9 * truth <= ram['descendants']['total_rss'] <= 1.01 * truth
    assert 0.9 * truth <= ram['combined']['total_rss'] <= 1.01 * truth + 2 * FEW
    assert ram['main']['total_rss'] < 2 * FEW
    assert contradictions(ram) == []
    for group in ('descendants', 'combined'):
        lower, upper = run['bounds'][group]['total']
        assert lower <= 1.01 * truth + (2 * FEW if group == 'combined' else 0)
        assert upper is None or upper >= truth - COUNTERS


def test_a_program_that_a_shell_starts_between_two_samples_is_in_descendants_as_well_as_in_combined(
    tmp_path: Path,
) -> None:
    ram, truth = command_line(tmp_path, '-e', f'sleep 0.7; {shlex.join(growing(300 * MEGABYTE, 0.15))}')
    assert 300 * MEGABYTE < truth < 300 * MEGABYTE + FEW
    assert 0.9 * truth <= ram['descendants']['total_rss'] <= 1.01 * truth
    assert 0.9 * truth <= ram['combined']['total_rss'] <= 1.01 * truth + FEW
    assert ram['main']['total_rss'] < FEW
    assert contradictions(ram) == []


@pytest.mark.parametrize('seconds', [0.8, 0.05])
def test_the_parts_of_a_command_that_ends_between_two_samples_make_up_its_total(tmp_path: Path, seconds: float) -> None:
    ram, truth = command_line(tmp_path, '--', *growing(459 * MEGABYTE, seconds))
    assert 0.9 * truth <= ram['main']['total_rss'] <= 1.01 * truth
    assert ram['combined']['total_rss'] == ram['main']['total_rss']
    assert ram['descendants'] == dict.fromkeys(PARTS, 0)
    assert contradictions(ram) == []


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
    lower, upper = run['bounds']['descendants']['total']
    assert lower is None or lower > 0
    assert upper is None or upper > 0
    assert contradictions(run['ram']) == []


def test_a_commands_descendants_that_no_sample_has_seen_are_unknown_and_never_nothing(tmp_path: Path) -> None:
    ram, _ = command_line(tmp_path, '-e', '/bin/true; echo 0')
    assert all(figure is None or figure > 0 for figure in (ram['descendants'][part] for part in PARTS))
    assert contradictions(ram) == []


def test_descendants_that_were_never_there_are_nothing() -> None:
    run = tracked(f'with {TRACKER} as tracker:\n    burn(0.01)\nreport(tracker)')
    assert run['ram']['descendants'] == dict.fromkeys(PARTS, 0)
    assert run['bounds']['descendants']['total'][0] in (None, 0)
    assert contradictions(run['ram']) == []
