"""The configuration is read again beside the event loop, one time after the other."""

from __future__ import annotations

import asyncio
import logging
import queue

import pytest

from gpu_tracker.idle.config.configuration_file import Reading, Reloading
from gpu_tracker.idle.config.document import Problem
from gpu_tracker.idle.config.idle_settings import Program, Settings
from support.waiting import TIMEOUT

SOME = Settings(1.0, programs=(Program('process-a', None, ('a',), '/'),))
OTHER = Settings(2.0, programs=SOME.programs)
EMPTY = Settings(3.0)
WARNED = ' is still being read after the previous SIGHUP. Afterwards, the file is read again'


class Reader:
    """Reads as soon as it is told what."""

    def __init__(self) -> None:
        self.answers: queue.Queue[Reading] = queue.Queue()
        self.begun = 0

    def read(self, path: str) -> Reading:
        assert path == '/f.conf'
        self.begun += 1
        answer = self.answers.get(timeout=TIMEOUT)
        if isinstance(answer, Exception):
            raise answer
        return answer


@pytest.fixture
def said(caplog):
    caplog.set_level(logging.INFO)
    return lambda: [f'{record.levelname} {record.getMessage()}' for record in caplog.records]


def reloaded(*answers, asked: int = 1, current: Settings = SOME) -> tuple[list[Settings | None], int]:
    """Return what each reading comes to, and how often the file was read."""

    async def story() -> tuple[list[Settings | None], int]:
        reader, done = Reader(), asyncio.Semaphore(0)
        reloading = Reloading('/f.conf', logging.getLogger('of a test'), done.release, read=reader.read)
        found = [reloading.take(current)]
        for _ in range(asked):
            reloading.ask()
            await asyncio.sleep(0)
        for answer in answers:
            reader.answers.put(answer)
            await done.acquire()
            found.append(reloading.take(current))
        assert reloading.take(current) is None
        return found, reader.begun

    return asyncio.run(story())


def test_a_file_is_taken_once(said):
    assert reloaded(Reading(OTHER, (), ())) == ([None, OTHER], 1)
    assert said() == ['INFO SIGHUP: /f.conf is read again']


def test_one_that_is_asked_for_meanwhile_is_read_after_the_first_and_once(said):
    first, second = Reading(OTHER, (), ()), Reading(SOME, (), ())
    assert reloaded(first, second, asked=3) == ([None, OTHER, SOME], 2)
    assert said() == [*2 * [f'WARNING SIGHUP: /f.conf{WARNED}'], *2 * ['INFO SIGHUP: /f.conf is read again']]


def test_errors_change_nothing(said):
    reading = Reading(None, (Problem(3, 'process-a', 'dir: is missing'),), (Problem(None, None, 'is odd'),))
    assert reloaded(reading) == ([None, None], 1)
    assert said() == [
        'WARNING /f.conf: is odd',
        'ERROR /f.conf:3: [process-a] dir: is missing',
        'ERROR SIGHUP: /f.conf has errors, so nothing changes',
    ]


def test_a_file_without_programs_changes_nothing_unless_there_were_none(said):
    assert reloaded(Reading(EMPTY, (), ())) == ([None, None], 1)
    assert reloaded(Reading(EMPTY, (), ()), current=Settings()) == ([None, EMPTY], 1)
    assert said() == ['ERROR SIGHUP: /f.conf has no program, so nothing changes', 'INFO SIGHUP: /f.conf is read again']


def test_whatever_fails_the_next_one_is_read(said):
    assert reloaded(ZeroDivisionError(), Reading(OTHER, (), ()), asked=2) == ([None, None, OTHER], 2)
    assert 'ERROR SIGHUP: /f.conf cannot be read' in said()
