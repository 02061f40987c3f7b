from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from gpu_tracker.recording.writing.region_log import RegionLog

if TYPE_CHECKING:
    from pathlib import Path

START = 'B\t{}\t{}\t70\t71\ttask-1\t3000000\t5000\t2000\t{}\t{{"a": 1}}\n'
END = 'E\t{}\t9000000\t8000\t2500\t-\n'


class Log:
    def __init__(self, path: Path, **options: object) -> None:
        self.path = path
        path.touch()
        self.read = RegionLog(str(path), start_ns=1_000_000, **options)

    def write(self, text: str) -> None:
        with self.path.open('a') as file:
            file.write(text)

    def rows(self) -> tuple[list, list]:
        self.read.read()
        (_, new), (_, ends) = self.read.rows()
        found = [tuple(row) for row in new], list(ends)
        self.read.written()
        return found


@pytest.fixture
def log(tmp_path: Path) -> Log:
    return Log(tmp_path / 'log')


def test_begin_and_end_in_one_batch_are_one_row(log: Log) -> None:
    log.write(START.format(5, '-', 'load') + END.format(5))
    row = (5, None, 70, 71, 'task-1', 'load', '{"a": 1}', 2000, 8000, 3, 2000, 2500, None, 1, *(None,) * 4, 0)
    assert log.rows() == ([row], [])


def test_an_end_in_a_later_batch_changes_the_row(log: Log) -> None:
    log.write(START.format(5, 4, 'load'))
    row = (5, 4, 70, 71, 'task-1', 'load', '{"a": 1}', 2000, None, None, 2000, None, None, 1, *(None,) * 4, 0)
    assert log.rows() == ([row], [])
    log.write('E\t5\t9000000\t-\t2500\tKeyError\n')
    assert log.rows() == ([], [(8000, None, 2500, 'KeyError', 1, 5)])


def test_a_fold_is_a_row_of_its_own(log: Log) -> None:
    log.write('S\t9\t5\t70\t71\tstep\t2000000\t4000000\t300\t1500000\t4000\t9000\t0.25\t1000000\t2\n')
    row = (9, 5, 70, 71, None, 'step', None, 1000, 3000, 1000, None, None, None, 300, 1500, 4, 9, 0.25, 2)
    assert log.rows() == ([row], [])


def test_half_a_line_waits_for_its_other_half(log: Log) -> None:
    line = START.format(5, '-', 'load')
    log.write(line[:20])
    assert log.rows() == ([], [])
    log.write(line[20:])
    assert [row[5] for row in log.rows()[0]] == ['load']
    assert not log.read.has_grown


def test_lines_that_are_none_of_ours_are_counted(log: Log) -> None:
    log.write('nonsense\nB\t1\n\n' + END.format(77) + START.format(5, '-', 'load'))
    assert [row[0] for row in log.rows()[0]] == [5]
    assert log.read.lost == 3


def test_lines_beyond_the_most_are_counted(tmp_path: Path) -> None:
    log = Log(tmp_path / 'log', most=2)
    log.write(''.join(START.format(number, '-', 'load') for number in (1, 2, 3)) + END.format(3) + END.format(2))
    assert [(row[0], row[8]) for row in log.rows()[0]] == [(1, None), (2, 8000)]
    assert log.read.lost == 2


def test_a_line_without_an_end_does_not_fill_the_memory(log: Log) -> None:
    log.write('x' * 100_000)
    assert log.rows() == ([], [])
    assert log.read.lost == 1


def test_a_file_that_has_come_in_place_of_the_log_is_left_alone(log: Log) -> None:
    log.path.rename(log.path.with_name('moved'))
    log.path.write_text('of somebody else')
    log.read.remove()
    assert log.path.exists()
