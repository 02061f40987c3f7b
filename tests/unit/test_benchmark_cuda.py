"""The tables of the probe of CUDA calls, made from given figures, and what its peers are told and tell."""

import os

import pytest
from benchmarks import bcc_headers
from benchmarks.cuda import PART
from benchmarks.cuda_cost import CALLS, Case
from benchmarks.cuda_looking import NOBODY
from benchmarks.cuda_rates import LONG
from benchmarks.cuda_runs import command_file
from benchmarks.cuda_stand_in import PUSH
from benchmarks.cuda_start import ATTACHING, STARTING
from benchmarks.cuda_tables import cuda_tables
from benchmarks.cuda_tracers import JSON_LINES, TOTALS, UPROBE_MULTI, Place
from benchmarks.environments import Environment
from benchmarks.peers import BPFTRACE, OURS
from benchmarks.report import text_of
from benchmarks.results import Gap, Results
from benchmarks.session import FailedError

ROW = Case(PUSH).name


@pytest.fixture
def results():
    return Results(versions={OURS.name: '6'})


@pytest.fixture
def place(tmp_path):
    return Place(Environment(BPFTRACE.name, tmp_path / 'usr', '0'), tmp_path / 'libcudart.so', tmp_path)


def test_what_is_added_to_a_call_is_compared_in_the_same_rounds(results):
    for number, (alone, ours, theirs) in enumerate([(10e-9, 510e-9, 1010e-9), (20e-9, 420e-9, 1220e-9)]):
        for who, seconds in ((NOBODY, alone), (UPROBE_MULTI.name, ours), (TOTALS.name, theirs)):
            results.add(PART, ROW, who, number, dict.fromkeys(CALLS, seconds))
    table = cuda_tables(results)[0]
    assert table.columns == ['first instruction', 'who looks', 'launch', 'malloc', 'free', 'synchronise', 'rounds']
    assert table.rows[0] == ['push', 'not probed: a call takes', *['15.0'] * 4, '2']
    assert table.rows[1] == ['push', 'gpu-tracker', *['450'] * 4, '2']
    assert table.rows[3] == ['push', 'bpftrace, totals', *['1,100 (2.50)'] * 4, '2']


def test_a_tool_that_is_not_there_has_dashes_and_the_reason(results):
    results.add(PART, ROW, NOBODY, 0, dict.fromkeys(CALLS, 1e-8))
    results.gaps.append(Gap(PART, 'all', BPFTRACE.name, 'bpftrace is not installed'))
    table = cuda_tables(results)[0]
    assert table.rows[3] == ['push', 'bpftrace, totals', *['—'] * 5]
    assert table.notes == [
        '— bpftrace, totals; bpftrace, entries only; bpftrace, a JSON line a call: not run: bpftrace is not installed'
    ]


def test_counts_and_events_that_are_missing_are_told_apart(results):
    results.add(PART, LONG.name, UPROBE_MULTI.name, 0, {'rate': 1e5, 'missed': 0.0, 'lost': 0.125})
    results.add(PART, LONG.name, JSON_LINES.name, 0, {'rate': 8e4, 'missed': 0.5, 'lost': 0.5})
    (row,) = cuda_tables(results)[1].rows
    assert row == ['100,000', '100,000', '0', '12.5', '—', '50.0 at 80,000', '—', '1']


def test_what_the_tracer_uses_and_when_it_looks(results):
    figures = {'cpu': 0.5, 'rss at rest': 40e6, 'rss': 50e6, 'maps': 20e6}
    results.add(PART, LONG.name, UPROBE_MULTI.name, 0, figures)
    results.add(PART, LONG.name, TOTALS.name, 0, figures | {'cpu': 0.25})
    results.add(PART, STARTING, NOBODY, 0, {'seconds': 0.002})
    results.add(PART, STARTING, UPROBE_MULTI.name, 0, {'seconds': 0.2})
    results.gaps.append(Gap(PART, ATTACHING, UPROBE_MULTI.name, 'the reason'))
    use, start = cuda_tables(results)[2:]
    assert use.rows[0] == ['gpu-tracker', '0.500', '40.0', '50.0', '20.0', '1']
    assert use.rows[1] == ['bpftrace, totals', '0.250 (0.500)', '40.0 (1.00)', '50.0 (1.00)', '20.0 (1.00)', '1']
    assert start.rows[0] == ['a command begins', 'not probed', '2.00', '2.00', '2.00', '1']
    assert start.rows[1] == ['a command begins', 'gpu-tracker', '200', '200', '200', '1']
    assert start.notes == ['— gpu-tracker, the first call of a running process is counted: the reason']


def test_the_report_has_the_tables_of_which_there_are_figures(results):
    results.add(PART, STARTING, UPROBE_MULTI.name, 0, {'seconds': 0.2})
    titles = [line for line in text_of(results).splitlines() if line.startswith('**cuda: ')]
    assert titles == ['**cuda: milliseconds of start and end**']


def test_our_report_is_read(place):
    place.output.write_text('{"processes": [{"launches": 3}, {"launches": 4}], "events_lost": 5}')
    assert UPROBE_MULTI.counted(place, '') == (7, 5)


def test_a_probe_that_could_not_look_gives_no_figures(place):
    place.output.write_text('{"problem": "the reason"}')
    with pytest.raises(FailedError, match=r'^the reason$'):
        UPROBE_MULTI.counted(place, '')


def test_the_totals_of_bpftrace_are_read(place):
    place.output.write_text('Attaching 9 probes...\n@launches[17]: 40\n@launches[18]: 2\n@threads[17]: 99\n')
    assert TOTALS.counted(place, '') == (42, None)


def test_the_lines_of_bpftrace_are_counted_and_those_that_it_has_lost(place):
    line = '{"call":"launch","pid":1}\n'
    place.output.write_text(f'Attaching 8 probes...\n{line}{line}Lost 30 events\n{{"call":"free","pid":1}}\n{line}')
    assert JSON_LINES.counted(place, 'Lost 4 events\n') == (3, 34)


def test_scripts_of_bpftrace_name_the_library(place):
    words = TOTALS.at(place, 17)
    assert words[1:-1] == ['-o', str(place.output), '-p', '17']
    script = (place.folder / 'cuda_totals.bt').read_text()
    assert words[-1] == str(place.folder / 'cuda_totals.bt')
    assert f'uretprobe:{place.library}:cudaMalloc\n' in script
    assert 'LIBRARY' not in script


def test_the_program_has_a_shell_script_that_becomes_it(tmp_path):
    path = command_file(tmp_path, tmp_path / 'program', 'wait; launches 3 axpy')
    assert path.read_text() == f"exec '{tmp_path / 'program'}' 'wait; launches 3 axpy'\n"


@pytest.mark.skipif(os.uname().machine != 'x86_64', reason='this machine is not x86-64')
def test_declarations_take_the_place_of_headers_that_are_not_there(tmp_path):
    variables = bcc_headers.variables(tmp_path, installed=False)
    assert variables == {'BCC_KERNEL_SOURCE': str(tmp_path)}
    assert 'typedef unsigned long long __u64;' in (tmp_path / 'include' / 'linux' / 'types.h').read_text()
    assert bcc_headers.variables(tmp_path / 'none', installed=True) == {}
    assert not (tmp_path / 'none').exists()
