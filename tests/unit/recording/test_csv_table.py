from __future__ import annotations

import csv
import multiprocessing
from typing import TYPE_CHECKING

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from gpu_tracker.result.csv_table import append, check, table_of

if TYPE_CHECKING:
    from pathlib import Path

FIGURES = {
    'max_ram': {'unit': 'gigabytes', 'main': {'total_rss': 0.25}, 'system': None},
    'gpus': [{'uuid': 'GPU-1'}],
    'compute_time': {'unit': 'hours', 'time': 0.5},
}
HEADER = 'command,exit_code,max_ram.unit,max_ram.main.total_rss,max_ram.system,compute_time.unit,compute_time.time'


def rows_of(path: Path) -> list[dict[str, str]]:
    with path.open(newline='') as file:
        return list(csv.DictReader(file))


def test_the_table_of_one_run() -> None:
    assert table_of(FIGURES, ['python', 'my train.py', 'a,b'], 3) == (
        f'{HEADER}\n"python \'my train.py\' a,b",3,gigabytes,0.25,,hours,0.5'
    )


def test_a_process_that_had_been_started_before_has_no_command_and_no_exit_code() -> None:
    assert table_of(FIGURES, (), None) == f'{HEADER}\n,,gigabytes,0.25,,hours,0.5'


def test_lines_are_added_below_one_header(tmp_path: Path) -> None:
    path = tmp_path / 'runs.csv'
    append(str(path), table_of(FIGURES, ['a'], 0))
    append(str(path), table_of(FIGURES, ['b'], 1))
    assert path.read_text() == (f'{HEADER}\na,0,gigabytes,0.25,,hours,0.5\nb,1,gigabytes,0.25,,hours,0.5\n')


def test_a_run_with_other_figures_widens_the_table(tmp_path: Path) -> None:
    path = tmp_path / 'runs.csv'
    append(str(path), table_of({'time': 1}, ['a'], 0))
    append(str(path), table_of({'reads': 7, 'time': 2}, ['b'], 0))
    append(str(path), table_of({'time': 3}, ['c'], 0))
    assert path.read_text() == 'command,exit_code,time,reads\na,0,1,\nb,0,2,7\nc,0,3,\n'


@pytest.mark.parametrize(
    ('text', 'fault'),
    [
        ('notes\n', 'its first line does not begin with command,exit_code'),
        ('command,exit_code,time\na,0\n', 'line 2 has the wrong number of cells'),
        ('command,exit_code,time\na,0,1\nb,0,1,2\n', 'line 3 has the wrong number of cells'),
        ('command,exit_code,time\n"a,0,1\n', 'unexpected end of data'),
    ],
)
def test_a_file_with_something_else_stays_as_it_is(tmp_path: Path, text: str, fault: str) -> None:
    path = tmp_path / 'notes'
    path.write_text(text)
    with pytest.raises(ValueError, match=f'^{fault}$'):
        check(str(path))
    with pytest.raises(ValueError, match=f'^{fault}$'):
        append(str(path), table_of(FIGURES, ['a'], 0))
    assert path.read_text() == text


def test_a_table_can_begin_in_a_missing_and_in_an_empty_file(tmp_path: Path) -> None:
    for path in (tmp_path / 'missing', tmp_path / 'empty'):
        (tmp_path / 'empty').touch()
        check(str(path))
        append(str(path), table_of({'time': 1}, ['a'], 0))
        check(str(path))
        assert path.read_text() == 'command,exit_code,time\na,0,1\n'


@example(['\r', 'a\r\nb', '\n'])
@given(st.lists(st.text(st.characters(exclude_categories=['Cs'], exclude_characters='\0')), max_size=4))
def test_every_command_is_found_again(tmp_path_factory: pytest.TempPathFactory, command: list[str]) -> None:
    import shlex  # noqa: PLC0415 - the inverse of what is tested

    path = tmp_path_factory.mktemp('table') / 'runs.csv'
    append(str(path), table_of({'time': 1}, command, 0))
    append(str(path), table_of({'time': 2}, ['last'], 0))
    rows = rows_of(path)
    assert [shlex.split(rows[0]['command']), rows[0]['time'], rows[1]['command']] == [command, '1', 'last']


def _append_twenty(path: str, name: str) -> None:
    for number in range(20):
        append(path, table_of({'number': number}, [name], 0))


def test_processes_that_add_at_once_lose_nothing(tmp_path: Path) -> None:
    path = tmp_path / 'runs.csv'
    context = multiprocessing.get_context('spawn')
    writers = [context.Process(target=_append_twenty, args=(str(path), name)) for name in 'abc']
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
        assert writer.exitcode == 0
    found = sorted((row['command'], int(row['number'])) for row in rows_of(path))
    assert found == [(name, number) for name in 'abc' for number in range(20)]
