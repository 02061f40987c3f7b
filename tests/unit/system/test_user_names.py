"""Names of users where the service that knows them may not answer."""

from __future__ import annotations

import subprocess
import sys
import threading

import pytest

from gpu_tracker.system.users import UserNames
from support.waiting import TIMEOUT, eventually

ALICE, BOB = 1000, 1001


# Root may have any number of threads, and the interpreter may be where others cannot reach it.
WITHOUT_THREADS = """
import os, resource
from gpu_tracker.system.users import UserNames
names = UserNames(lambda user: f'name of {user}', timeout=60.0)
if os.geteuid() == 0:
    os.setgroups([])
    os.setgid(65534)
    os.setuid(65534)
before = resource.getrlimit(resource.RLIMIT_NPROC)
resource.setrlimit(resource.RLIMIT_NPROC, (0, before[1]))
print(names.name(1000))
resource.setrlimit(resource.RLIMIT_NPROC, before)
print(names.name(1000))
"""


class NameService:
    """Knows some names, and hangs for users who are told to it."""

    def __init__(self) -> None:
        self.known = {ALICE: 'alice', BOB: 'bob'}
        self.asked = []
        self.now = 0.0
        self.answers = threading.Event()
        self.hanging = set()

    def look_up(self, user):
        self.asked.append(user)
        if user in self.hanging:
            self.answers.wait(TIMEOUT)
        return self.known.get(user, str(user))

    def names(self, timeout=TIMEOUT) -> UserNames:
        return UserNames(self.look_up, timeout=timeout, monotonic=lambda: self.now)


@pytest.fixture
def service():
    service = NameService()
    yield service
    service.answers.set()


def test_the_first_question_waits_for_its_answer(service):
    names = service.names()
    assert names.name(ALICE) == 'alice'
    assert names.name(42) == '42'


def test_a_name_is_asked_for_once_in_five_minutes(service):
    names = service.names()
    names.name(ALICE)
    service.now = 299.0
    service.known[ALICE] = 'alicia'
    assert names.name(ALICE) == 'alice'
    assert service.asked == [ALICE]
    service.now = 300.0
    eventually(lambda: names.name(ALICE) == 'alicia')
    assert service.asked == [ALICE, ALICE]


def test_a_user_without_a_name_is_asked_for_again_soon(service):
    names = service.names()
    assert names.name(42) == '42'
    service.known[42] = 'carol'
    service.now = 9.0
    assert names.name(42) == '42'
    service.now = 10.0
    eventually(lambda: names.name(42) == 'carol')


def test_the_number_stands_in_until_the_answer_is_there(service):
    service.hanging = {ALICE}
    names = service.names(timeout=0.01)
    assert [names.name(ALICE), names.name(ALICE)] == ['1000', '1000']
    eventually(lambda: service.asked == [ALICE])
    service.answers.set()
    eventually(lambda: names.name(ALICE) == 'alice')
    assert service.asked == [ALICE]


def test_only_the_first_of_those_who_hang_is_waited_for(service):
    """With this patience the test would not end in time."""
    service.hanging = {ALICE, BOB}
    names = service.names(timeout=0.01)
    names.name(ALICE)
    names._timeout = 60.0
    assert names.name(BOB) == '1001'
    assert names.name(ALICE) == '1000'


def test_others_are_told_while_one_hangs(service):
    service.hanging = {ALICE}
    names = service.names(timeout=0.01)
    names.name(ALICE)
    eventually(lambda: names.name(BOB) == 'bob')


def test_an_old_name_stands_while_it_is_asked_for_again(service):
    names = service.names()
    names.name(ALICE)
    service.hanging = {ALICE}
    service.now = 1000.0
    assert names.name(ALICE) == 'alice'


def test_a_service_that_fails_knows_no_name(service):
    def fail(_user):
        raise OSError

    assert UserNames(fail, timeout=TIMEOUT).name(ALICE) == '1000'


def test_who_could_not_be_asked_for_is_asked_for_again():
    words = [sys.executable, '-c', WITHOUT_THREADS]
    answer = subprocess.run(words, capture_output=True, text=True, check=True, timeout=TIMEOUT)
    assert answer.stdout == '1000\nname of 1000\n'
