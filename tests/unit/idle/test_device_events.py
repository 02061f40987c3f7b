from __future__ import annotations

import os
import resource
import select
from pathlib import Path

import pytest

from gpu_tracker.idle.observing.device_events import DeviceChanges, DeviceEvents, open_device_events

NOTHING = DeviceChanges()


@pytest.fixture
def wake(tmp_path):
    (tmp_path / 'nvidia0').touch()
    wake = DeviceEvents(str(tmp_path))
    yield wake
    wake.close()


def is_awake(wake) -> bool:
    return bool(select.select([wake.fileno()], [], [], 0)[0])


def test_nothing_has_happened_at_first(wake):
    assert wake.watch([0]) is None
    assert not is_awake(wake)
    assert wake.drain() == NOTHING
    assert not wake.drain()


def test_tells_opens_and_closes(wake, tmp_path):
    (tmp_path / 'nvidia1').touch()
    wake.watch([0, 1])
    wake.drain()
    handle = os.open(tmp_path / 'nvidia0', os.O_RDONLY)
    assert is_awake(wake)
    assert wake.drain() == DeviceChanges(opened=frozenset({0}))
    os.close(handle)
    os.close(os.open(tmp_path / 'nvidia1', os.O_RDWR))
    assert wake.drain() == DeviceChanges(frozenset({1}), frozenset({0, 1}))
    assert wake.drain() == NOTHING


def test_tells_new_pseudo_terminals_as_long_as_they_matter():
    wake = DeviceEvents('/dev')
    try:
        assert wake.watch_terminals(wanted=True) is None
        assert wake.watch_terminals(wanted=True) is None
        wake.drain()
        handles = os.openpty()
        assert is_awake(wake)
        assert wake.drain().terminal
        for handle in handles:
            os.close(handle)
        assert wake.watch_terminals(wanted=False) is None
        wake.drain()
        for handle in os.openpty():
            os.close(handle)
        assert not wake.drain().terminal
    finally:
        wake.close()


def test_without_pseudo_terminals_there_are_none_to_watch(wake, tmp_path):
    assert wake.watch_terminals(wanted=True) is None
    (tmp_path / 'pts').mkdir()
    assert wake.watch_terminals(wanted=True) is None
    (tmp_path / 'pts' / '3').touch()
    changes = wake.drain()
    assert changes.terminal
    assert changes
    (tmp_path / 'pts' / '3').unlink()
    (tmp_path / 'pts').rmdir()
    wake.drain()
    (tmp_path / 'pts').mkdir()
    assert wake.watch_terminals(wanted=True) is None
    (tmp_path / 'pts' / '4').touch()
    assert wake.drain().terminal


def test_a_device_is_watched_through_a_link(tmp_path):
    (tmp_path / 'nvidia0').symlink_to('/dev/zero')
    wake = DeviceEvents(str(tmp_path))
    wake.watch([0])
    os.close(os.open('/dev/zero', os.O_RDONLY))
    assert 0 in wake.drain().opened
    wake.close()


def test_tells_nodes_that_appear_change_and_go(wake, tmp_path):
    (tmp_path / 'nvidia1').touch()
    assert wake.drain() == DeviceChanges(folder=True)
    (tmp_path / 'nvidia1').chmod(0o600)
    assert wake.drain() == DeviceChanges(folder=True)
    (tmp_path / 'nvidia1').rename(tmp_path / 'nvidia2')
    assert wake.drain() == DeviceChanges(folder=True)
    (tmp_path / 'nvidia2').unlink()
    assert wake.drain() == DeviceChanges(folder=True)


def test_other_files_in_the_folder_do_not_matter(wake, tmp_path):
    for name in ('tty1', 'nvidiactl', 'nvidia-uvm', 'nvidia0.tmp'):
        (tmp_path / name).touch()
        (tmp_path / name).unlink()
    assert wake.drain() == NOTHING


def test_a_node_that_is_made_anew_can_be_watched_again(wake, tmp_path):
    wake.watch([0])
    (tmp_path / 'nvidia0').unlink()
    (tmp_path / 'nvidia0').touch()
    assert wake.drain().folder
    wake.watch([0])
    os.close(os.open(tmp_path / 'nvidia0', os.O_RDONLY))
    assert wake.drain() == DeviceChanges(frozenset({0}), frozenset({0}))


def test_a_node_is_watched_no_more(wake, tmp_path):
    wake.watch([0])
    wake.watch([])
    os.close(os.open(tmp_path / 'nvidia0', os.O_RDONLY))
    assert wake.drain() == NOTHING


def test_a_node_that_is_missing_is_no_problem(wake):
    assert wake.watch([0, 7]) is None


def test_more_than_can_be_noted_means_to_look_at_everything(wake, tmp_path):
    most = int(Path('/proc/sys/fs/inotify/max_queued_events').read_text())
    if most != 16_384:
        pytest.skip('this machine has another limit in fs.inotify.max_queued_events')
    (tmp_path / 'nvidia1').touch()
    wake.watch([0, 1])
    wake.drain()
    path = tmp_path / 'nvidia0'
    for _ in range(most // 2 + 2):
        os.close(os.open(path, os.O_RDONLY))
    assert wake.drain() == DeviceChanges(frozenset({0}), frozenset({0}))
    assert is_awake(wake)  # it is not read until nothing comes any more
    assert wake.drain() == DeviceChanges(opened=frozenset({0, 1}), folder=True)
    assert not is_awake(wake)


def test_a_missing_folder_is_a_reason_in_words(tmp_path):
    wake, reason = open_device_events(str(tmp_path / 'missing'))
    assert wake is None
    assert reason == f'{tmp_path / "missing"} cannot be watched: No such file or directory'


def test_a_limit_that_is_reached_is_a_reason_in_words(tmp_path):
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    next_handle = os.open(tmp_path, os.O_RDONLY)
    os.close(next_handle)
    resource.setrlimit(resource.RLIMIT_NOFILE, (next_handle, limits[1]))
    try:
        wake, reason = open_device_events(str(tmp_path))
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)
    assert wake is None
    assert reason == (
        "inotify cannot be used: too many of this user's programs watch files (fs.inotify.max_user_instances),"
        ' or too many are open'
    )


def test_close_may_be_called_twice(tmp_path):
    wake = DeviceEvents(str(tmp_path))
    wake.close()
    wake.close()
    assert wake.fileno() == -1


def test_its_descriptor_is_not_inherited(wake):
    assert not os.get_inheritable(wake.fileno())
    assert not os.get_blocking(wake.fileno())
