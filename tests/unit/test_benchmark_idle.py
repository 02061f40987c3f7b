"""The tables of the monitor of idle GPUs, made from given figures."""

import pytest
from benchmarks.idle import PART
from benchmarks.idle_cost import FUSER_EACH, SCAN_EACH, SCENES
from benchmarks.idle_monitors import configuration
from benchmarks.idle_noticing import RIGHTS, ROW, WAYS
from benchmarks.idle_tables import idle_tables
from benchmarks.idle_units import ROW as UNITS_ROW
from benchmarks.idle_yield import CASES, LOOKING, PEER, TOLD
from benchmarks.peers import FUSER, OURS
from benchmarks.report import text_of
from benchmarks.results import Gap, Results

from gpu_tracker.idle.config.configuration_file import read

SLEEP, SHELL = CASES[0].name, CASES[1].name
NOTHING, PROGRAMS = SCENES[0].name, SCENES[1].name
INOTIFY, FANOTIFY = WAYS[0].name, WAYS[1].name


@pytest.fixture
def results():
    return Results(versions={OURS.name: '6'})


def test_times_to_yield_are_milliseconds_and_compared_in_the_same_rounds(results):
    for number, (told, looking) in enumerate([(0.010, 0.2), (0.005, 0.8), (0.020, 0.6)]):
        results.add(PART, SLEEP, TOLD, number, {'seconds': told})
        results.add(PART, SLEEP, LOOKING, number, {'seconds': looking})
    table = idle_tables(results)[0]
    assert table.columns == ['program', 'monitor', 'median', 'smallest', 'largest', 'times the first', 'rounds']
    assert table.rows == [
        ['sleep, looked at each 1 s', 'gpu-tracker, told by inotify', '10.0', '5.00', '20.0', '—', '3'],
        ['sleep, looked at each 1 s', 'gpu-tracker, by looks only', '600', '200', '800', '30.0', '3'],
    ]
    assert table.notes == []


def test_a_program_that_is_not_gone_has_dashes_and_the_reason(results):
    results.add(PART, SHELL, TOLD, 0, {'seconds': 0.01})
    results.gaps.append(Gap(PART, SHELL, PEER, 'the reason'))
    table = idle_tables(results)[0]
    assert [row[1:] for row in table.rows] == [
        ['gpu-tracker, told by inotify', '10.0', '10.0', '10.0', '—', '1'],
        ['fuser each interval, SIGKILL', '—', '—', '—', '—', '—'],
    ]
    assert table.notes == ['— fuser each interval, SIGKILL, a shell with a grandchild, looked at each 1 s: the reason']


def test_a_tool_that_is_not_there_is_named_as_the_table_calls_it(results):
    results.add(PART, SLEEP, TOLD, 0, {'seconds': 0.01})
    results.gaps.append(Gap(PART, 'all', FUSER.name, 'fuser is not installed'))
    assert idle_tables(results)[0].notes == ['— fuser each interval, SIGKILL: fuser is not installed']


def test_cpu_of_guardians_and_samplers_is_told_apart(results):
    parts = {'monitor': 0.008, 'guardians': 0.0, 'samplers': 0.016, 'driver': 0.0005}
    results.add(PART, PROGRAMS, OURS.name, 0, parts | {'cpu': 0.024, 'processes': 2108.0})
    results.add(PART, NOTHING, OURS.name, 0, {'monitor': 0.008, 'cpu': 0.008, 'processes': 2084.0})
    results.add(PART, NOTHING, FUSER_EACH, 0, {'monitor': 0.2, 'cpu': 0.2, 'processes': 2084.0})
    results.add(PART, NOTHING, SCAN_EACH, 0, {'monitor': 0.032, 'cpu': 0.032, 'processes': 2084.0})
    table = idle_tables(results)[1]
    assert table.columns == [
        'what runs',
        'processes',
        'monitor',
        'guardians',
        'samplers',
        'driver',
        'fuser',
        'all descriptors',
        'rounds',
    ]
    assert table.rows == [
        ['nothing runs', '2,084', '8.00', '—', '—', '—', '200 (25.0)', '32.0 (4.00)', '1'],
        ['8 programs run', '2,108', '8.00', '0', '16.0', '0.500', '—', '—', '1'],
    ]


def test_memory_is_that_while_programs_run(results):
    held = {f'{role}: {kind}': 10e6 for role in ('monitor', 'guardians') for kind in ('peak', 'pss')}
    for name in (NOTHING, PROGRAMS):
        results.add(PART, name, OURS.name, 0, held | {'cpu': 0.01})
    table = idle_tables(results)[2]
    assert table.columns == ['process', 'while', 'peak RSS', 'PSS']
    assert table.rows == [
        ['monitor', '8 programs run', '10.0', '10.0'],
        ['guardian of a program', '8 programs run', '10.0', '10.0'],
    ]


def test_ways_of_being_told_have_their_rights(results):
    results.add(PART, RIGHTS, INOTIFY, 0, {'refused': 0.0})
    results.add(PART, RIGHTS, FANOTIFY, 0, {'refused': 1.0})
    for number, middle in enumerate((20e-6, 40e-6)):
        figures = {'median': middle, 'smallest': middle / 2, 'largest': 10 * middle, 'cpu': 1e-4, 'quiet': 0.0}
        results.add(PART, ROW, INOTIFY, number, figures)
    results.gaps.append(Gap(PART, ROW, FANOTIFY, 'the reason'))
    table = idle_tables(results)[3]
    assert table.columns == [
        'way',
        'median',
        'smallest',
        'largest',
        'CPU an open',
        'CPU at rest (ms/s)',
        'without root',
        'rounds',
    ]
    assert table.rows == [
        ['inotify', '30.0', '10.0', '400', '100', '0', 'yes', '2'],
        ['fanotify', '—', '—', '—', '—', '—', 'no: EPERM', '—'],
    ]
    assert table.notes == ['— fanotify: the reason']


def test_the_report_has_the_tables_only_where_there_are_figures(results):
    assert 'idle: ' not in text_of(results)
    results.add(PART, SLEEP, TOLD, 0, {'seconds': 0.01})
    text = text_of(results)
    assert '**idle: milliseconds from a foreign open until the program is gone**' in text
    assert '**idle: memory (MB)**' not in text


def test_the_configuration_is_what_the_monitor_reads(tmp_path):
    file = tmp_path / 'idle.conf'
    file.write_text(configuration(0.5, [['sh', '-c', 'sleep 9 & wait'], ['sleep', '9']]))
    reading = read(str(file))
    assert (reading.errors, reading.warnings) == ((), ())
    assert reading.settings.interval == 0.5
    assert [program.command for program in reading.settings.programs] == [
        ('sh', '-c', 'sleep 9 & wait'),
        ('sleep', '9'),
    ]


def test_no_two_rows_have_the_same_name():
    for kind in (CASES, SCENES, WAYS):
        assert len({one.name for one in kind}) == len(kind)


def test_the_share_of_units_of_work_is_a_percentage_of_each_that_was_measured(results):
    results.add(PART, UNITS_ROW, OURS.name, 0, {'2': 0.614, '299': 0.998})
    table = idle_tables(results)[-1]
    assert table.rows == [['2', '61%', '1'], ['299', '100%', '1']]
