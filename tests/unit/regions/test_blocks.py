from __future__ import annotations

import asyncio
import contextlib
import functools
import inspect
import json
import os
import threading
from typing import TYPE_CHECKING

import pytest

import gpu_tracker as gput
from gpu_tracker.regions import calls, log
from support.region_log import made_log

if TYPE_CHECKING:
    from collections.abc import Iterator

    from support.region_log import RegionLog


@pytest.fixture
def written() -> Iterator[RegionLog]:
    with made_log(joined=True) as made:
        yield made


def test_a_block_is_recorded_with_its_attributes(written):
    with gput.region('load', batch=3):
        pass
    begin = written.begin('load')
    assert json.loads(begin.attributes) == {'batch': 3}
    assert begin.process_id == os.getpid()
    assert begin.thread_id == threading.get_native_id()
    assert begin.id >> 41 == os.getpid()
    end = written.end('load')
    assert end.t >= begin.t
    assert end.thread_cpu >= begin.thread_cpu
    assert end.peak >= begin.peak > 1000
    assert end.error is None


def test_blocks_nest_and_recur(written):
    def recur(depth):
        with gput.region('r'):
            if depth:
                recur(depth - 1)

    with gput.region('a'):
        recur(2)
        with gput.region('b'):
            pass
    with gput.region('c'):
        pass
    assert written.parents == [('a', None), ('r', 'a'), ('r', 'r'), ('r', 'r'), ('b', 'a'), ('c', None)]
    assert len(written.ends) == 6


def test_an_exception_is_named_and_goes_on(written):
    with pytest.raises(ZeroDivisionError), gput.region('fails'):
        _ = 1 / 0
    assert written.end('fails').error == 'ZeroDivisionError'


def test_numbers_become_names(written):
    for name in (3, 1.5):
        with gput.region(name):
            pass
    assert [begin.name for begin in written.begins] == ['3', '1.5']


@pytest.mark.parametrize('wrong', [property(lambda self: 1), None, [], int, b'x', functools.cached_property(len)])
def test_nothing_else_is_a_region(wrong):
    with pytest.raises(TypeError):
        gput.region(wrong)
    with pytest.raises(TypeError):
        gput.region('name')(wrong)


def test_functions_keep_what_they_are(written):
    @gput.region
    def plain(x: int) -> int:
        """Double."""
        return 2 * x

    @gput.region('named')
    async def coroutine():
        return 1

    @gput.region
    def generator():
        yield 1

    @gput.region
    async def async_generator():
        yield 1

    assert plain(3) == 6
    assert (plain.__name__, plain.__doc__) == ('plain', 'Double.')
    assert list(inspect.signature(plain).parameters) == ['x']
    assert inspect.iscoroutinefunction(coroutine)
    assert inspect.isgeneratorfunction(generator)
    assert inspect.isasyncgenfunction(async_generator)
    assert asyncio.run(coroutine()) == 1
    assert list(generator()) == [1]
    prefix = 'test_functions_keep_what_they_are.<locals>.'
    assert [begin.name for begin in written.begins] == [f'{prefix}plain', 'named', f'{prefix}generator']


def test_methods(written):
    class Thing:
        @gput.region('method')
        def method(self):
            return self

        @gput.region('class')
        @classmethod
        def of_class(cls):
            return cls

        @gput.region('static')
        @staticmethod
        def static(x):
            return x

    thing = Thing()
    assert thing.method() is thing
    assert thing.of_class() is Thing
    assert Thing.static(5) == 5
    assert [begin.name for begin in written.begins] == ['method', 'class', 'static']


def test_a_generator_is_no_parent_of_what_uses_it(written):
    @gput.region('generator')
    def numbers():
        with gput.region('in it'):
            yield 1
            with gput.region('deeper'):
                yield 2

    for _ in numbers():
        with gput.region('body'):
            pass
    assert written.parents == [
        ('generator', None),
        ('in it', 'generator'),
        ('body', None),
        ('deeper', 'in it'),
        ('body', None),
    ]
    assert len(written.ends) == 5


def test_a_block_that_a_generator_leaves_open_is_the_parent_until_it_ends(written):
    def numbers():
        with gput.region('in it'):
            yield 1

    items = numbers()
    next(items)
    with gput.region('body'):
        items.close()
    with gput.region('after'):
        pass
    assert written.parents == [('in it', None), ('body', 'in it'), ('after', None)]


def test_one_object_serves_generators_that_take_turns(written):
    shared = gput.region('shared')

    def numbers():
        with shared:
            yield 1
            with gput.region('inside'):
                yield 2

    first, second = numbers(), numbers()
    assert [next(first), next(second), next(first), next(second)] == [1, 1, 2, 2]
    first.close()
    second.close()
    assert len(written.begins) == len(written.ends) == 4
    with gput.region('after'):
        pass
    assert written.begin('after').parent is None


def test_a_block_in_a_context_manager_is_a_parent(written):
    @contextlib.contextmanager
    def step():
        with gput.region('step'):
            yield

    with step(), gput.region('body'):
        pass
    assert written.parents == [('step', None), ('body', 'step')]


def test_a_generator_gets_what_is_sent_and_thrown(written):
    @gput.region('generator')
    def echo():
        given = yield 'first'
        try:
            yield given
        except KeyError:
            yield 'caught'
        return 'result'

    items = echo()
    assert next(items) == 'first'
    assert items.send('sent') == 'sent'
    assert items.throw(KeyError('k')) == 'caught'
    with pytest.raises(StopIteration) as stop:
        next(items)
    assert stop.value.value == 'result'
    assert written.end('generator').error is None


def test_a_generator_that_is_left_has_ended_without_an_error(written):
    @gput.region('generator')
    def numbers():
        yield 1
        yield 2

    for _ in numbers():
        break
    assert written.end('generator').error is None


def test_asynchronous_blocks_functions_and_generators(written):
    @gput.region('items')
    async def items():
        yield 1
        await asyncio.sleep(0)
        yield 2

    @gput.region('work')
    async def work(name):
        async with gput.region(name):
            await asyncio.sleep(0)

    async def main():
        async for _ in items():
            with gput.region('body'):
                await asyncio.sleep(0)
        with gput.region('both'):
            await asyncio.gather(work('x'), work('y'))

    asyncio.run(main())
    parents = dict(written.parents)
    assert parents == {'items': None, 'body': None, 'both': None, 'work': 'both', 'x': 'work', 'y': 'work'}
    assert len(written.ends) == len(written.begins)
    assert {begin.thread_cpu for begin in written.begins} == {None}
    assert all(begin.task for begin in written.begins)


def test_sync_is_called_before_both_stamps_and_only_where_it_is_recorded():
    seen = []
    with gput.region('not recorded', sync=lambda: seen.append('no')):
        pass
    assert seen == []
    with made_log(joined=True) as written:
        with gput.region('a', sync=lambda: seen.append(len(written.lines))):
            pass
        assert seen == [0, 1]


def test_a_failing_sync_is_raised_after_the_end_was_written(written):
    ready = []

    def sync():
        if ready:
            raise RuntimeError('the GPU is gone')

    with pytest.raises(RuntimeError, match='the GPU is gone'), gput.region('a', sync=sync):
        ready.append(1)
    assert written.end('a').error == 'RuntimeError'


def test_one_object_serves_threads_and_recursion(written):
    shared = gput.region('shared')
    barrier = threading.Barrier(4)

    def work():
        with shared:
            barrier.wait()
            with shared:
                barrier.wait()

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(written.begins) == len(written.ends) == 8
    by_id = {begin.id: begin for begin in written.begins}
    inner = [begin for begin in written.begins if begin.parent is not None]
    assert len(inner) == 4
    for begin in inner:
        outer = by_id[begin.parent]
        assert outer.thread_id == begin.thread_id
        assert outer.t <= begin.t <= written.ends[begin.id].t <= written.ends[outer.id].t


def test_one_object_serves_the_exit_stacks_of_several_tasks(written):
    shared = gput.region('shared')

    async def work(name, mine, others, done):
        async with contextlib.AsyncExitStack() as stack:
            stack.enter_context(shared)
            with gput.region(name):
                mine.set()
                await others.wait()
        with gput.region(f'after {name}'):
            done.set()

    async def main():
        first, second, last = asyncio.Event(), asyncio.Event(), asyncio.Event()

        await asyncio.gather(work('first', first, second, last), work('second', second, last, asyncio.Event()))

    asyncio.run(main())
    task_of = {begin.id: begin.task for begin in written.begins}
    ended = [task_of[number] for number, end in sorted(written.ends.items(), key=lambda item: item[1].t)]
    first, second = written.begin('first'), written.begin('second')
    assert ended == [first.task] * 3 + [second.task] * 3
    assert task_of[first.parent] == first.task
    assert task_of[second.parent] == second.task


def test_a_region_that_another_thread_ends_has_no_thread_cpu(written):
    block = gput.region('a')
    block.__enter__()
    thread = threading.Thread(target=block.__exit__, args=(None, None, None))
    thread.start()
    thread.join()
    assert written.end('a').thread_cpu is None


def test_a_thread_has_a_parent_only_with_a_copy_of_the_context(written):
    async def main():
        with gput.region('outer'):
            await asyncio.to_thread(inner, 'copied')

    def inner(name):
        with gput.region(name):
            pass

    asyncio.run(main())
    with gput.region('outer 2'):
        thread = threading.Thread(target=inner, args=('alone',))
        thread.start()
        thread.join()
    parents = dict(written.parents)
    assert parents['copied'] == 'outer'
    assert parents['alone'] is None


def test_regions_that_overlap_keep_no_chain(written):
    previous = gput.region('x')
    previous.__enter__()
    for _ in range(100):
        following = gput.region('x')
        following.__enter__()
        previous.__exit__(None, None, None)
        previous = following
    depth, call = 0, calls.innermost.get()
    while call is not None:
        depth, call = depth + 1, call.previous
    previous.__exit__(None, None, None)
    assert depth <= 3
    assert len(written.ends) == 101


def test_nothing_is_recorded_without_a_log():
    with gput.region('a') as entered:
        assert entered is not None
    assert log.active is None


def test_what_began_in_one_log_ends_in_it_and_in_no_other():
    with made_log(joined=True) as outer:
        with gput.region('early'), made_log(joined=True) as inner, gput.region('both'):
            assert os.environ[log.LOGS_VARIABLE] == f'{outer.path}{os.pathsep}{inner.path}'
            inner_early = [line for line in inner.begins if line.name == 'early']
        assert inner_early == []
        assert [begin.name for begin in outer.begins] == ['early', 'both']
        assert len(outer.ends) == 2
    assert log.LOGS_VARIABLE not in os.environ
    assert log.active is None
