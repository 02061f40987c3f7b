"""The tracker's figures of random programs against wait4, high-water marks and the frames in pagemap."""

from __future__ import annotations

import copy
import math
import os
import statistics
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest

from gpu_tracker.processes.exit_records import ExitRecords
from support.programs import need_program
from support.random_programs.expect import bounds
from support.random_programs.generate import generate
from support.random_programs.run import run
from support.random_programs.script import COMMAND, PROCESS, Actor, Program
from support.random_programs.stage import build
from support.truth import need_root
from support.truth.figures import GROUPS, contradictions

if TYPE_CHECKING:
    from support.random_programs.run import Run

PROGRAMS = int(os.environ.get('RANDOM_PROGRAMS', '100'))
AT_A_TIME = os.cpu_count() or 1
"""Most of its time a program stands still, so that a core each leaves the samplers their turn."""
KNOWN = 0.9
"""The part of all programs of which an upper bound is known, at least."""
TIGHT = {'main': 1.5, 'descendants': 3, 'combined': 3}
"""How many times the lower bound it is, in the middle: one page fault may bring 64 KiB, and many bring 4."""


@pytest.fixture(scope='module')
def actor(tmp_path_factory: pytest.TempPathFactory) -> str:
    need_root()
    need_program('cc')
    return build(str(tmp_path_factory.mktemp('actor')))


@pytest.fixture(scope='module')
def runs(actor: str) -> list[Run]:
    with ThreadPoolExecutor(AT_A_TIME) as pool:
        return list(pool.map(lambda seed: run(generate(seed), actor), range(PROGRAMS)))


def deviations(found: Run) -> list[str]:
    return [*(str(bound) for bound in bounds(found) if not bound.holds), *contradictions(found.ram)]


def test_figures_of_random_programs_are_what_the_kernel_says(actor: str, runs: list[Run]) -> None:
    # A sampler that does not get its turn on a busy machine misses what is there for a few samples only: alone, the
    # same program has to be measured rightly. What is wrong in one program of 25 is wrong in any case.
    suspects = [found.program for found in runs if deviations(found)]
    assert len(suspects) <= PROGRAMS // 25, [program.seed for program in suspects]
    again = [run(generate(program.seed), actor) for program in suspects]
    wrong = {found.program.seed: (found, told) for found in again if (told := deviations(found))}
    reports = ['\n'.join([str(found.program), *told]) for found, told in wrong.values()]
    assert not wrong, f'{len(wrong)} of {PROGRAMS}: {list(wrong)}\n\n' + '\n\n'.join(reports[:3])


@pytest.mark.parametrize('group', GROUPS)
def test_the_bounds_of_nearly_all_random_programs_are_known_and_tight(group: str, runs: list[Run]) -> None:
    # A bound that nothing is known of is never wrong, nor is one that is far away.
    try:
        ExitRecords().close()
    # Without them any process that the machine starts meanwhile may have been an orphan of a program.
    except PermissionError:
        pytest.skip('needs root, with CAP_NET_ADMIN, to read the ends of processes')
    except OSError as error:
        pytest.skip(f'this machine does not report the ends of processes: {error}')
    of_some = [found for found in runs if group != 'descendants' or found.program.has_descendants]
    recorded = [found.bounds[group]['total'] for found in of_some if found.bounds is not None]
    known = [upper / lower if lower else math.inf for lower, upper in recorded if upper is not None]
    assert len(known) >= KNOWN * len(recorded), f'{len(known)} of {len(recorded)} are known'
    assert statistics.median(known) <= TIGHT[group]


def test_programs_are_the_same_for_the_same_seed() -> None:
    assert str(generate(7)) == str(generate(7)) != str(generate(8))


def fixed_program(way: str) -> Program:
    """Return a program in which little is uncertain: main and one child have memory of their own and use CPU time."""
    program = Program(None, way, holds=2)
    program.bodies = {
        0: ['hold 0', 'map 0 private 8192', 'write 0 0 8192', 'burn 200', 'fork 1', 'hold 1', 'wait 1'],
        1: ['map 1 private 16384', 'write 1 0 16384', 'burn 600', 'hold 1'],
    }
    root = Actor(None, 'fork', 0, [0], ended=2)
    child = Actor(root, 'fork', 1, [1], ended=2, waited=2)
    root.pages[1] = 8192
    child.pages[1] = 16384
    root.starts[1] = 1
    program.actors = [root, child]
    return program


@pytest.fixture(scope='module', params=[PROCESS, COMMAND])
def found(request: pytest.FixtureRequest, actor: str) -> Run:
    return run(fixed_program(request.param), actor)


def test_a_simple_program_has_the_figures_that_it_was_written_for(found: Run) -> None:
    assert deviations(found) == []
    # Page faults take some time as well.
    assert 0.2 <= found.cpu['main'] < 0.3
    assert 0.58 <= found.cpu['descendants'] < 0.75
    page = os.sysconf('SC_PAGE_SIZE')
    assert found.ram['main']['private_rss'] == pytest.approx(8192 * page, rel=0.02)
    assert found.ram['descendants']['total_rss'] == pytest.approx((8192 + 16384) * page, rel=0.03)
    assert found.ram['combined']['total_rss'] == pytest.approx((8192 + 16384) * page, rel=0.06)


@pytest.mark.parametrize('factor', [0.92, 1.08])
@pytest.mark.parametrize('group', ['main', 'descendants', 'combined'])
def test_a_size_that_is_8_percent_off_is_noticed(found: Run, group: str, factor: float) -> None:
    wrong = copy.copy(found)
    wrong.ram = found.ram | {group: found.ram[group] | {'total_rss': found.ram[group]['total_rss'] * factor}}
    assert any(told.startswith(f'{group} RAM:') for told in deviations(wrong))


@pytest.mark.parametrize('factor', [0.92, 1.08])
@pytest.mark.parametrize('group', ['main', 'descendants', 'combined'])
def test_a_time_that_is_8_percent_off_is_noticed(found: Run, group: str, factor: float) -> None:
    wrong = copy.copy(found)
    wrong.cpu = found.cpu | {group: found.cpu[group] * factor}
    assert any(told.startswith(f'{group} CPU:') for told in deviations(wrong))


def test_a_process_of_another_program_is_noticed(found: Run) -> None:
    wrong = copy.copy(found)
    wrong.threads = found.threads | {'descendants': 2}
    assert any('descendants threads' in told for told in deviations(wrong))
