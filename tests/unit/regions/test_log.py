from __future__ import annotations

import os
import stat
import sys
import threading

import pytest

import gpu_tracker as gput
from gpu_tracker import real
from gpu_tracker.regions import log
from support.region_log import made_log


def descriptor(path):
    """Return the descriptor by which the log is open in this process."""
    for name in os.listdir('/proc/self/fd'):
        try:
            if os.readlink(f'/proc/self/fd/{name}').removesuffix(' (deleted)') == path:
                return int(name)
        except FileNotFoundError:
            continue  # that of the folder itself
    return None


def step(name):
    with gput.region(name):
        pass


def test_a_log_is_empty_and_private():
    with made_log(joined=False) as made:
        found = os.stat(made.path)
        assert (stat.S_IMODE(found.st_mode), found.st_size) == (0o600, 0)


def test_a_log_is_made_where_temporary_files_are(tmp_path, monkeypatch):
    monkeypatch.setenv('TMPDIR', str(tmp_path))
    path = log.create_log()
    assert os.path.dirname(path) == str(tmp_path)


def test_a_folder_that_cannot_be_named_in_the_variable_is_passed_over(tmp_path, monkeypatch):
    folder = tmp_path / 'a:b'
    folder.mkdir()
    monkeypatch.setenv('TMPDIR', str(folder))
    path = log.create_log()
    os.unlink(path)
    assert ':' not in path


def test_a_closed_descriptor_is_opened_again():
    with made_log(joined=True) as made:
        step('a')
        os.close(descriptor(made.path))
        step('b')
        assert [begin.name for begin in made.begins] == ['a', 'b']
        assert len(made.ends) == 2


def test_threads_that_write_their_first_line_at_the_same_time_lose_none():
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        sizes = [size_of_a_log_of_four_threads() for _ in range(300)]
    finally:
        sys.setswitchinterval(interval)
    assert sizes == [4 * 5 * len(b'line\n')] * 300


def size_of_a_log_of_four_threads():
    path = log.create_log()
    file = log.LogFile(path)
    together = threading.Barrier(4)

    def work():
        together.wait()
        for _ in range(5):
            file.write(b'line\n')

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    file.close()
    size = os.path.getsize(path)
    os.unlink(path)
    return size


def test_a_log_that_was_left_first_keeps_nothing_from_the_other():
    with made_log(joined=False) as left, made_log(joined=True) as other:
        log.join(left.path)
        log.leave(other.path)
        log.join(other.path)  # they are left in the order in which they were joined
        with gput.region('a'):
            log.leave(left.path)
        assert [begin.name for begin in other.begins] == ['a']
        assert len(other.ends) == 1


def test_no_line_goes_into_a_file_that_has_got_the_number(tmp_path):
    with made_log(joined=True) as made, open(tmp_path / 'mine', 'wb') as mine:
        step('a')
        number = descriptor(made.path)
        os.dup2(mine.fileno(), number)
        step('b')
        assert [begin.name for begin in made.begins] == ['a', 'b']
        os.fstat(number)  # the program's file stays open
        os.close(number)
    assert (tmp_path / 'mine').read_bytes() == b''


def test_no_line_of_one_log_goes_into_another_that_has_got_its_number():
    with made_log(joined=True) as first:
        step('a')
        number = descriptor(first.path)
        with made_log(joined=True) as second:
            step('b')
            os.dup2(descriptor(second.path), number)
            step('c')
            assert [begin.name for begin in first.begins] == ['a', 'b', 'c']
            assert [begin.name for begin in second.begins] == ['b', 'c']
            os.close(number)


def test_a_removed_log_is_left_after_a_while():
    path = log.create_log()
    log.join(path)
    step('a')
    os.unlink(path)
    for _ in range(100):
        step('b')
    assert log.active is None
    assert not os.path.exists(path)
    log.leave(path)


def test_another_file_of_the_name_is_not_written_to():
    path = log.create_log()
    log.join(path)
    step('a')
    os.close(descriptor(path))
    os.rename(path, f'{path}.old')
    with open(path, 'wb'):
        pass
    step('b')
    assert os.path.getsize(path) == 0
    assert log.active is None
    log.leave(path)
    os.unlink(path)
    os.unlink(f'{path}.old')


def test_a_link_is_not_followed(tmp_path):
    target = tmp_path / 'target'
    target.write_bytes(b'')
    (tmp_path / 'link').symlink_to(target)
    log.join(str(tmp_path / 'link'))
    step('a')
    log.leave(str(tmp_path / 'link'))
    assert target.read_bytes() == b''


def test_after_a_full_disk_a_line_begins_anew(monkeypatch):
    class FullDisk:
        """The system's write while the disk takes five bytes more, and nothing after that."""

        def __init__(self):
            self.room = 5
            self.write = os.write

        def __call__(self, number, data):
            if not self.room:
                raise OSError(28, 'No space left on device')
            written = self.write(number, data[: self.room])
            self.room -= written
            return written

    with made_log(joined=True) as made:
        step('a')
        with monkeypatch.context() as patched:
            patched.setattr(real.os, 'write', FullDisk())
            step('b')
            step('c')
        step('d')
        lines = made.lines
        assert [line.split(b'\t')[0] for line in lines[:3]] == [b'B', b'E', b'B']
        assert len(lines[2]) == 6
        assert [line.split(b'\t')[0] for line in lines[3:]] == [b'B', b'E']


def test_a_log_that_cannot_be_opened_costs_the_regions_only(tmp_path):
    for path in (tmp_path, tmp_path / 'missing', '/dev/full'):
        log.join(str(path))
        step('a')
        log.leave(str(path))
    assert log.active is None


@pytest.mark.parametrize(('given', 'found'), [('17', 17), ('', None), ('x', None), ('-1', None), ('9' * 30, None)])
def test_the_outer_region_is_a_number(monkeypatch, given, found):
    monkeypatch.setenv(log.REGION_VARIABLE, given)
    assert log.outer_region() == found
