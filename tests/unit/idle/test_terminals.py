from __future__ import annotations

import os

import pytest

from gpu_tracker.idle.config.idle_settings import Terminals
from gpu_tracker.idle.observing.terminals import TerminalUsers
from gpu_tracker.idle.state import ActiveUser

NOW = 1_000_000.0
NAMES = {0: 'root', 1000: 'alice', 1001: 'bob', 4242: '4242'}


class Devices:
    """A folder of terminals, whose owners are told and not changed: no root is needed."""

    def __init__(self, path) -> None:
        self.path = path
        self.owners = {}
        self.sessions = ()
        self.asked = 0
        self.now = NOW
        self.monotonic = 0.0
        self.users = TerminalUsers(
            str(path),
            name_of=NAMES.__getitem__,
            clock=lambda: self.now,
            monotonic=lambda: self.monotonic,
            sessions=self._logged_in,
            stat=self._look,
        )

    def put(self, name, user, idle) -> None:
        path = self.path / name
        path.parent.mkdir(exist_ok=True)
        path.touch()
        os.utime(path, (NOW - idle, NOW - 9999))
        self.owners[path.stat().st_ino] = user

    def active(self, idle_seconds=60.0, whitelist=(), sessions=()):
        self.sessions = sessions
        return self.users.active(Terminals(idle_seconds, frozenset(whitelist)))

    def wait(self, seconds) -> None:
        self.now += seconds
        self.monotonic += seconds

    def _logged_in(self):
        self.asked += 1
        return self.sessions

    def _look(self, path):
        found = os.stat(path)
        fields = list(found)
        fields[4] = self.owners[found.st_ino]
        return os.stat_result(fields, {'st_atime': found.st_atime})


@pytest.fixture
def devices(tmp_path):
    return Devices(tmp_path)


def test_tells_who_has_used_a_terminal_lately(devices):
    devices.put('pts/3', 1000, 10)
    devices.put('pts/4', 1001, 61)
    assert devices.active() == (ActiveUser('alice', 'pts/3', 10.0),)


def test_an_idle_time_of_just_the_limit_is_idle(devices):
    devices.put('pts/3', 1000, 60)
    assert devices.active() == ()


def test_the_latest_comes_first(devices):
    devices.put('pts/1', 1000, 20)
    devices.put('pts/12', 1001, 5)
    devices.put('tty2', 1001, 7)
    assert [str(user) for user in devices.active()] == ['bob at pts/12', 'bob at tty2', 'alice at pts/1']


def test_a_time_in_the_future_is_now(devices):
    devices.put('pts/3', 1000, -100)
    assert devices.active() == (ActiveUser('alice', 'pts/3', 0.0),)


def test_a_time_in_the_future_ages_from_when_it_was_seen_first(devices):
    """The clock was wrong when the terminal was used, and was set back since."""
    devices.put('pts/3', 1000, -100)
    devices.active()
    devices.wait(59)
    assert devices.active() == (ActiveUser('alice', 'pts/3', 59.0),)
    devices.wait(1)
    assert devices.active() == ()
    devices.wait(41)  # now that time has come
    assert devices.active() == ()


def test_a_terminal_whose_time_is_in_the_future_is_used_again(devices):
    devices.put('pts/3', 1000, -1000)
    devices.active()
    devices.wait(60)
    devices.put('pts/3', 1000, -1060)
    assert devices.active() == (ActiveUser('alice', 'pts/3', 0.0),)
    devices.wait(60)
    devices.put('pts/3', 1000, 0)  # after the clock was set right
    devices.now = NOW + 5
    assert devices.active() == (ActiveUser('alice', 'pts/3', 5.0),)


def test_a_terminal_that_was_closed_is_forgotten(devices):
    devices.put('pts/3', 1000, -1000)
    devices.active()
    (devices.path / 'pts' / '3').unlink()
    devices.active()
    devices.wait(60)
    devices.put('pts/3', 1000, -1000)
    assert devices.active() == (ActiveUser('alice', 'pts/3', 0.0),)


def test_a_user_whose_name_is_not_known_yet_counts(devices, monkeypatch):
    devices.put('pts/3', 1000, 1)
    devices.put('tty1', 0, 1)
    monkeypatch.setitem(NAMES, 1000, '1000')
    monkeypatch.setitem(NAMES, 0, '0')
    counted = devices.active(whitelist=['alice', 'root'], sessions=[('root', 'tty1')])
    assert [user.name for user in counted] == ['1000', '0']


def test_users_on_the_whitelist_do_not_count(devices):
    devices.put('pts/3', 1000, 1)
    devices.put('pts/4', 4242, 1)
    assert [user.name for user in devices.active(whitelist=['alice'])] == ['4242']
    assert devices.active(whitelist=['alice', '4242']) == ()


@pytest.mark.parametrize('name', ['pts/ptmx', 'tty', 'tty0', 'ttyUSB0', 'ttyprintk', 'ptmx', 'console', 'pts/x1'])
def test_is_no_terminal_of_a_user(devices, name):
    devices.put(name, 1000, 1)
    assert devices.active() == ()


@pytest.mark.parametrize('name', ['tty1', 'tty63', 'ttyS0', 'pts/0'])
def test_is_a_terminal(devices, name):
    devices.put(name, 1000, 1)
    assert [user.terminal for user in devices.active()] == [name]


def test_a_console_of_roots_counts_only_where_root_is_logged_in(devices):
    devices.put('tty1', 0, 1)
    devices.put('tty2', 0, 1)
    assert [user.terminal for user in devices.active(sessions=[('root', 'tty2'), ('alice', 'tty1')])] == ['tty2']
    assert devices.asked == 1


def test_roots_pseudo_terminal_counts_and_nobody_is_asked(devices):
    devices.put('pts/0', 0, 1)
    assert [user.name for user in devices.active()] == ['root']
    assert devices.asked == 0


def test_sessions_are_not_asked_for_about_idle_consoles(devices):
    devices.put('tty1', 0, 1000)
    assert devices.active() == ()
    assert devices.asked == 0


def test_without_terminals_nobody_is_active(tmp_path):
    assert TerminalUsers(str(tmp_path)).active(Terminals(60.0)) == ()
    assert TerminalUsers(str(tmp_path / 'missing')).active(Terminals(60.0)) == ()
