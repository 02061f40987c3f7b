"""Users at real terminals."""

from __future__ import annotations

import os
import time

import pytest

from gpu_tracker.idle.config.idle_settings import Terminals
from gpu_tracker.idle.observing.terminals import TerminalUsers, logged_in
from gpu_tracker.system.users import user_name
from support.waiting import eventually


@pytest.fixture
def terminal():
    """Make a pseudo-terminal that has just been used."""
    keyboard, screen = os.openpty()
    os.utime(screen, (0, 0))
    os.write(keyboard, b'x\n')
    assert os.read(screen, 10) == b'x\n'
    yield os.ttyname(screen).removeprefix('/dev/')
    os.close(keyboard)
    os.close(screen)


def at(terminal, users):
    return [user for user in users if user.terminal == terminal]


def test_a_user_who_types_is_active(terminal):
    (user,) = at(terminal, TerminalUsers().active(Terminals(60.0)))
    assert user.name == user_name(os.getuid())
    assert user.idle < 60  # the kernel rounds to 8 s


def test_later_the_user_is_not_active(terminal):
    later = time.time() + 100
    assert at(terminal, TerminalUsers(clock=lambda: later).active(Terminals(60.0))) == []


def test_a_user_on_the_whitelist_does_not_count(terminal):
    assert at(terminal, TerminalUsers().active(Terminals(60.0, frozenset({user_name(os.getuid())})))) == []


def test_a_user_without_a_name_is_known_by_number(terminal):
    (user,) = at(terminal, TerminalUsers(name_of=str).active(Terminals(60.0)))
    assert user.name == str(os.getuid())
    assert at(terminal, TerminalUsers(name_of=str).active(Terminals(60.0, frozenset({str(os.getuid())})))) == []


def test_a_terminal_that_is_closed_is_gone():
    keyboard, screen = os.openpty()
    name = os.ttyname(screen).removeprefix('/dev/')
    os.close(keyboard)
    os.close(screen)
    # Somebody else may have got its number meanwhile, such as another test.
    eventually(lambda: at(name, TerminalUsers().active(Terminals(60.0))) == [])


def test_sessions_are_pairs_of_user_and_terminal():
    assert all(isinstance(user, str) and isinstance(terminal, str) for user, terminal in logged_in())
