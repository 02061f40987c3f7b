"""Code blocks: their names, their calls, and that they never fail."""

from __future__ import annotations

import asyncio
import contextlib
import csv
import logging
import os
import sqlite3
import threading
from typing import TYPE_CHECKING

import pytest

from gpu_tracker.sub_tracker import SubTracker, sub_track
from gpu_tracker.sub_tracker.block_file import read_blocks, read_rows

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(params=['csv', 'sqlite'])
def path(request, tmp_path: Path) -> str:
    return str(tmp_path / f'blocks.{request.param}')


def names(path: str) -> list[str]:
    return [row.name for row in read_rows(path)]


def test_a_call_is_two_rows(path: str):
    with SubTracker('block', sub_tracking_file=path) as block:
        assert block.code_block_name == 'block'
        assert block.sub_tracking_file == path
        assert block.process_id == os.getpid()

    start, stop = read_rows(path)
    assert (start.process_id, start.name, start.position) == (os.getpid(), 'block', 0)
    assert (stop.process_id, stop.name, stop.position) == (os.getpid(), 'block', 1)
    assert start.call_id == stop.call_id
    assert start.timestamp <= stop.timestamp


def test_the_layout_is_that_of_gpu_tracker_5_and_the_number_of_the_call(tmp_path: Path):
    for ending in ('csv', 'sqlite'):
        with SubTracker('b', sub_tracking_file=tmp_path / f'x.{ending}'):
            pass

    with open(tmp_path / 'x.csv', newline='', encoding='utf-8') as file:
        header, *rows = csv.reader(file)
    with contextlib.closing(sqlite3.connect(tmp_path / 'x.sqlite')) as database:
        columns = database.execute('SELECT name, type FROM pragma_table_info(?)', ('data',)).fetchall()
    assert header == ['process_id', 'code_block_name', 'position', 'timestamp', 'call_id']
    assert [len(row) for row in rows] == [5, 5]
    assert columns == [
        ('process_id', 'INTEGER'),
        ('code_block_name', 'VARCHAR'),
        ('position', 'INTEGER'),
        ('timestamp', 'FLOAT'),
        ('call_id', 'INTEGER'),
    ]


def test_an_exception_ends_a_block_and_goes_on(path: str):
    with pytest.raises(KeyError), SubTracker('b', sub_tracking_file=path):
        raise KeyError

    assert len(read_blocks(path)['b'].calls) == 1


def test_the_default_name_is_the_relative_path_and_the_line(path: str):
    with SubTracker(sub_tracking_file=path) as block:
        pass
    line = test_the_default_name_is_the_relative_path_and_the_line.__code__.co_firstlineno + 1

    assert block.code_block_name == f'{os.path.relpath(__file__)}:{line}'


def test_an_attribute_stands_in_the_place_of_the_line(path: str):
    assert SubTracker(code_block_attribute='load', sub_tracking_file=path).code_block_name.endswith('.py:load')


def test_the_default_name_of_a_function_is_the_absolute_path_and_its_name(path: str):
    mark = sub_track(sub_tracking_file=path)

    @mark
    def one():
        return 1

    @mark
    def other():
        return 2

    assert (one(), other()) == (1, 2)
    assert sorted(set(names(path))) == [f'{os.path.abspath(__file__)}:{name}' for name in ('one', 'other')]


def test_a_decorated_function_is_what_it_was(path: str):
    @sub_track('f', sub_tracking_file=path)
    def add(one, *, other):
        """Add."""
        return one + other

    assert (add(1, other=2), add.__name__, add.__doc__) == (3, 'add', 'Add.')
    assert names(path) == ['f', 'f']


def test_the_block_of_a_coroutine_function_lasts_until_its_end(path: str):
    @sub_track('f', sub_tracking_file=path)
    async def work():
        await asyncio.sleep(0)
        return names(path)

    assert asyncio.run(work()) == ['f']
    assert names(path) == ['f', 'f']


def test_the_block_of_a_generator_function_lasts_until_its_last_item(path: str):
    @sub_track('f', sub_tracking_file=path)
    def count():
        received = yield len(names(path))
        yield received
        return 'end'

    items = count()
    assert next(items) == 1
    assert items.send('sent') == 'sent'
    with pytest.raises(StopIteration) as stopped:
        next(items)

    assert stopped.value.value == 'end'
    assert names(path) == ['f', 'f']


def test_the_default_file_is_named_after_the_process(tmp_path: Path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    with SubTracker('b') as block:
        pass

    assert block.sub_tracking_file == f'{os.getpid()}.csv'
    assert names(f'{os.getpid()}.csv') == ['b', 'b']


def test_a_block_stays_in_the_file_that_it_began_in(tmp_path: Path, monkeypatch):
    (tmp_path / 'other').mkdir()
    monkeypatch.chdir(tmp_path)

    with SubTracker('b', sub_tracking_file='x.csv'):
        monkeypatch.chdir(tmp_path / 'other')

    assert names(str(tmp_path / 'x.csv')) == ['b', 'b']
    assert os.listdir(tmp_path / 'other') == []


def test_another_ending_is_refused_at_once():
    with pytest.raises(ValueError, match=r"sub_tracking_file must be a path that ends in .csv or .sqlite, not 'x.txt'"):
        SubTracker('b', sub_tracking_file='x.txt')
    with pytest.raises(ValueError, match=r'sub_tracking_file'):
        sub_track(sub_tracking_file='x.txt')


def test_one_object_may_be_entered_by_several_threads_at_once(path: str):
    block = SubTracker('b', sub_tracking_file=path)
    order = [threading.Event() for _ in range(3)]

    def first():
        with block:
            order[0].set()
            order[1].wait()
        order[2].set()

    thread = threading.Thread(target=first)
    thread.start()
    order[0].wait()
    with block:
        order[1].set()
        order[2].wait()
    thread.join()

    rows = list(read_rows(path))
    assert [row.position for row in rows] == [0, 0, 1, 1]
    assert rows[0].call_id == rows[2].call_id != rows[1].call_id == rows[3].call_id


def test_one_object_may_be_entered_by_several_tasks_at_once(path: str):
    block = SubTracker('b', sub_tracking_file=path)

    async def task(own: asyncio.Event, other: asyncio.Event) -> None:
        with block:
            other.set()
            await own.wait()

    async def both() -> None:
        events = asyncio.Event(), asyncio.Event()
        await asyncio.gather(task(*events), task(*events[::-1]))

    asyncio.run(both())

    blocks = read_blocks(path)['b']
    assert (len(blocks.calls), blocks.n_unfinished) == (2, 0)


def test_one_object_may_be_entered_again_inside_itself(path: str):
    block = SubTracker('b', sub_tracking_file=path)
    with block, block:
        pass

    rows = list(read_rows(path))
    assert rows[0].call_id == rows[3].call_id != rows[1].call_id == rows[2].call_id


@pytest.mark.parametrize('ending', ['csv', 'sqlite'])
def test_an_unwritable_file_is_one_warning_and_no_exception(tmp_path: Path, caplog, ending):
    path = tmp_path / 'missing' / f'x.{ending}'
    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            with SubTracker('b', sub_tracking_file=path):
                pass

    assert len(caplog.messages) == 1
    assert caplog.messages[0].startswith(f'Code blocks are not written to {path}: ')


def test_a_file_of_something_else_is_left_alone(tmp_path: Path, caplog):
    path = tmp_path / 'letters.csv'
    path.write_text('to,whom,it,concerns\n1,2,3,4\n')

    with SubTracker('b', sub_tracking_file=path, overwrite=False):
        pass

    assert path.read_text() == 'to,whom,it,concerns\n1,2,3,4\n'
    assert caplog.messages == [
        f'Code blocks are not written to {path}: it does not have the columns of a sub-tracking file.'
    ]


def test_a_table_of_something_else_is_left_alone(tmp_path: Path, caplog):
    path = tmp_path / 'letters.sqlite'
    with contextlib.closing(sqlite3.connect(path)) as database:
        database.execute('CREATE TABLE data (letter)')

    with SubTracker('b', sub_tracking_file=path, overwrite=True):
        pass

    assert caplog.messages == [
        f'Code blocks are not written to {path}: it does not have the columns of a sub-tracking file.'
    ]


def test_a_file_that_is_removed_meanwhile_is_made_again(path: str):
    with SubTracker('b', sub_tracking_file=path):
        os.unlink(path)

    (row,) = read_rows(path)
    assert row.position == 1


def test_a_block_whose_start_was_not_written_writes_no_stop(path: str):
    block = SubTracker('b', sub_tracking_file=path)
    os.mkdir(path)
    with block:
        os.rmdir(path)

    assert not os.path.exists(path)


def test_overwrite_removes_nothing_that_this_program_has_written(path: str):
    with SubTracker('first', sub_tracking_file=path):
        pass
    with SubTracker('second', sub_tracking_file=path, overwrite=True):
        pass

    assert names(path) == ['first', 'first', 'second', 'second']
