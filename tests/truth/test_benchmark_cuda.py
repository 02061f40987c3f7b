"""That the benchmark of the probe of CUDA calls can be run: with gpu-tracker alone, and with bpftrace and BCC."""

import shutil
import sys
from pathlib import Path

import pytest
from benchmarks import cuda_cost, cuda_rates, cuda_start
from benchmarks.cuda import PART
from benchmarks.cuda_cost import CALLS
from benchmarks.cuda_looking import NOBODY
from benchmarks.cuda_stand_in import PUSH
from benchmarks.cuda_start import ATTACHING, STARTING
from benchmarks.cuda_tracers import ENTRIES, JSON_LINES, TOTALS, UPROBE_MULTI, WITH_BCC
from benchmarks.environments import Environment, UnavailableError, prepare
from benchmarks.peers import BCC, BPFTRACE, OURS
from benchmarks.results import Results
from benchmarks.session import Session

from support.compiled import require_compiler
from support.cuda.probed_program import opened

OURSELVES = Environment(OURS.name, Path(sys.executable).parent.parent, '6')
SYSTEM = Path('/usr')


@pytest.fixture(autouse=True)
def probe_works():
    """Skip if the machine does not let us probe."""
    require_compiler()
    with opened():
        pass


def session_with(*tools):
    environments = {OURS.name: OURSELVES}
    for tool in tools:
        try:
            environments[tool.name] = prepare(tool)
        except UnavailableError as error:
            pytest.skip(str(error))
    return Session([], environments, Results(), 1, quick=True)


def kinds_of(results):
    """Return what there are figures of, by row and who looks."""
    kinds = {}
    for figure in results.figures:
        assert figure.part == PART
        kinds.setdefault((figure.row, figure.peer), set()).add(figure.kind)
    return kinds


def test_each_call_has_its_cost():
    session, case = session_with(), cuda_cost.Case(PUSH, 40, (UPROBE_MULTI, TOTALS))
    cuda_cost.measure(session, PART, [case])
    assert session.results.gaps == []
    who = {NOBODY, UPROBE_MULTI.name}  # bpftrace is in no environment
    assert kinds_of(session.results) == {(case.name, one): set(CALLS) for one in who}


def test_all_launches_are_counted_and_the_tracer_is_looked_at():
    session, case = session_with(), cuda_rates.Case(1000, seconds=1, threads=2)
    cuda_rates.measure(session, PART, [case], [UPROBE_MULTI])
    assert session.results.gaps == []
    figures = {figure.kind: figure.value for figure in session.results.figures}
    assert set(figures) == {'rate', 'cpu', 'missed', 'lost', 'rss at rest', 'rss', 'maps'}
    assert (figures['missed'], figures['lost']) == (0, 0)
    assert figures['maps'] > 16 * 2**20  # the ring alone


def test_a_command_and_a_running_process_are_looked_at_after_some_time():
    session = session_with()
    cuda_start.measure(session, PART, 2.0, [UPROBE_MULTI])
    assert session.results.gaps == []
    assert kinds_of(session.results) == {
        (STARTING, NOBODY): {'seconds', 'end'},
        (STARTING, UPROBE_MULTI.name): {'seconds', 'end'},
        (ATTACHING, UPROBE_MULTI.name): {'seconds'},
    }


@pytest.mark.parametrize('tracer', [TOTALS, ENTRIES, JSON_LINES, WITH_BCC], ids=lambda tracer: tracer.name)
def test_others_count_the_same_launches(tracer):
    session = session_with(BCC if tracer is WITH_BCC else BPFTRACE)
    case = cuda_rates.Case(1000, seconds=1)
    cuda_rates.measure(session, PART, [case], [tracer])
    assert session.results.gaps == []
    assert session.results.rounds(PART, case.name, tracer.name, 'missed') == {0: 0.0}


def test_a_probe_that_may_not_look_says_why(tmp_path):
    powerless = tmp_path / 'bin' / 'python'
    powerless.parent.mkdir()
    setpriv = shutil.which('setpriv')
    if setpriv is None:
        pytest.skip('needs setpriv')
    powerless.write_text(
        f'#!/bin/sh\nexec {setpriv} --bounding-set=-bpf,-perfmon,-sys_admin --inh-caps=-all {sys.executable} "$@"\n'
    )
    powerless.chmod(0o755)
    session = Session([], {OURS.name: Environment(OURS.name, tmp_path, '6')}, Results(), 1, quick=True)
    cuda_cost.measure(session, PART, [cuda_cost.Case(PUSH, 40, (UPROBE_MULTI,))])
    (gap,) = session.results.gaps
    assert gap.peer == UPROBE_MULTI.name
    assert 'CAP_BPF' in gap.reason
