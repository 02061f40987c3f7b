from __future__ import annotations

import os
import stat
import threading
from typing import TYPE_CHECKING

import pytest

from gpu_tracker.errors import ParameterError
from gpu_tracker.recording.writing.tracking_file import whole_path
from gpu_tracker.system.files import check_writable, replaceable_file, write_whole

if TYPE_CHECKING:
    from pathlib import Path


def test_a_missing_file_is_made_and_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / 'report'
    check_writable(str(path))
    assert os.listdir(tmp_path) == []
    write_whole(str(path), 'text é\n')
    assert path.read_text() == 'text é\n'
    assert os.listdir(tmp_path) == ['report']


def test_a_new_file_has_the_mode_that_the_user_gives_new_files(tmp_path: Path) -> None:
    (tmp_path / 'other').touch()
    write_whole(str(tmp_path / 'report'), 'text')
    assert (tmp_path / 'report').stat().st_mode == (tmp_path / 'other').stat().st_mode


def test_an_existing_file_is_replaced_whole_and_keeps_its_mode(tmp_path: Path) -> None:
    path = tmp_path / 'report'
    path.write_text('a longer text than the new one')
    path.chmod(0o640)
    with path.open() as reader:
        check_writable(str(path))
        assert path.read_text() == 'a longer text than the new one'
        write_whole(str(path), 'new')
        assert reader.read() == 'a longer text than the new one'
    assert path.read_text() == 'new'
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    assert os.listdir(tmp_path) == ['report']


@pytest.mark.parametrize('existing', ['report', 'another'])
def test_symbolic_links_are_followed(tmp_path: Path, existing: str) -> None:
    target = tmp_path / 'folder' / 'report'
    target.parent.mkdir()
    (target.parent / existing).write_text('old')
    (tmp_path / 'second').symlink_to('folder/report')
    (tmp_path / 'first').symlink_to(tmp_path / 'second')
    write_whole(str(tmp_path / 'first'), 'new')
    assert (tmp_path / 'first').is_symlink()
    assert (tmp_path / 'second').is_symlink()
    assert target.read_text() == 'new'
    assert set(os.listdir(target.parent)) == {'report', existing}


@pytest.fixture
def shared(tmp_path: Path) -> Path:
    """Return a folder in which everybody may write, with a folder within and dangling links of another user."""
    if os.geteuid() != 0:
        pytest.skip('only root makes links of other users')
    folder = tmp_path / 'shared'
    folder.mkdir()
    folder.chmod(0o1777)
    (tmp_path / 'own').mkdir()
    for name, target in (('link', tmp_path / 'own' / 'report'), ('folder', '../own')):
        (folder / name).symlink_to(target)
        os.lchown(folder / name, 12345, 12345)
    return folder


@pytest.mark.parametrize(('path', 'link'), [('link', 'link'), ('folder/report', 'folder'), ('mine', 'link')])
def test_links_of_other_users_in_a_folder_for_all_are_refused(shared: Path, path: str, link: str) -> None:
    (shared / 'mine').symlink_to('link')
    text = f'{shared / link} is a symbolic link of another user'
    for write in (check_writable, replaceable_file, lambda path: write_whole(path, 'new')):
        with pytest.raises(PermissionError) as caught:
            write(str(shared / path))
        assert caught.value.strerror == text
    with pytest.raises(ParameterError) as refused:
        whole_path(shared / path)
    assert refused.value.accepted == f'a path that can be written ({text})'
    assert os.listdir(shared.parent / 'own') == []


def test_links_of_other_users_are_followed_elsewhere(shared: Path) -> None:
    for mode in (0o0755, 0o1755, 0o0777):
        shared.chmod(mode)
        write_whole(str(shared / 'link'), f'{mode:o}')
        assert (shared.parent / 'own' / 'report').read_text() == f'{mode:o}'
    shared.chmod(0o1777)
    os.chown(shared, 12345, 12345)
    write_whole(str(shared / 'link'), 'of the owner')
    assert (shared.parent / 'own' / 'report').read_text() == 'of the owner'


def test_a_path_without_folder_means_the_working_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write_whole('report', 'text')
    assert (tmp_path / 'report').read_text() == 'text'


def test_the_longest_name_that_a_file_can_have(tmp_path: Path) -> None:
    path = tmp_path / ('n' * 255)
    write_whole(str(path), 'text')
    assert path.read_text() == 'text'


def test_a_fifo_is_written_in_place_and_not_opened_by_the_check(tmp_path: Path) -> None:
    path = tmp_path / 'fifo'
    os.mkfifo(path)
    check_writable(str(path))
    assert replaceable_file(str(path)) is None
    received = []
    reader = threading.Thread(target=lambda: received.append(path.read_text()))
    reader.start()
    write_whole(str(path), 'text')
    reader.join()
    assert received == ['text']
    assert stat.S_ISFIFO(path.stat().st_mode)


def test_a_device_is_written_in_place() -> None:
    check_writable('/dev/null')
    write_whole('/dev/null', 'text')
    assert stat.S_ISCHR(os.stat('/dev/null').st_mode)
    check_writable('/dev/full')
    with pytest.raises(OSError, match='No space left on device'):
        write_whole('/dev/full', 'text')


def test_a_descriptor_is_written_where_it_stands(tmp_path: Path) -> None:
    path = tmp_path / 'output'
    with path.open('wb', buffering=0) as output:
        output.write(b'before ')
        name = f'/dev/fd/{output.fileno()}'
        (tmp_path / 'link').symlink_to(name)
        assert replaceable_file(name) is None
        check_writable(name)
        write_whole(name, 'report ')
        write_whole(str(tmp_path / 'link'), 'again ')
        write_whole(f'/proc/self/fd/{output.fileno()}', 'more ')
        output.write(b'after')
    assert path.read_text() == 'before report again more after'


def test_a_descriptor_that_is_only_read_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / 'input').touch()
    with (tmp_path / 'input').open('rb') as file, pytest.raises(OSError, match='Bad file descriptor'):
        check_writable(f'/dev/fd/{file.fileno()}')


@pytest.mark.parametrize('name', ['', 'missing/report', 'missing/', '.', 'file/report', 'loop'])
def test_what_cannot_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / 'file').write_text('old')
    (tmp_path / 'loop').symlink_to('loop')
    with pytest.raises(OSError, match=r'No such|directory|levels'):
        check_writable(name)
    with pytest.raises(OSError, match=r'No such|directory|levels'):
        write_whole(name, 'text')
    assert sorted(os.listdir(tmp_path)) == ['file', 'loop']
    assert (tmp_path / 'file').read_text() == 'old'


def test_a_failed_write_leaves_the_old_text_and_no_temporary_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / 'report'
    path.write_text('old')

    def full(descriptor: int, data: bytes) -> None:
        raise OSError(28, 'No space left on device')

    monkeypatch.setattr('gpu_tracker.system.files.write_all', full)
    with pytest.raises(OSError, match='No space left'):
        write_whole(str(path), 'new')
    assert path.read_text() == 'old'
    assert os.listdir(tmp_path) == ['report']


def test_the_temporary_file_of_a_killed_process_with_the_same_number_is_no_obstacle(tmp_path: Path) -> None:
    left = tmp_path / f'.gpu-tracker-{os.getpid()}-0.tmp'
    left.write_text('left')
    write_whole(str(tmp_path / 'report'), 'new')
    assert (tmp_path / 'report').read_text() == 'new'
    assert left.read_text() == 'left'


def test_a_reader_never_sees_a_part(tmp_path: Path) -> None:
    path = tmp_path / 'report'
    texts = {'a' * 100_000, 'b' * 50_000}
    write_whole(str(path), 'a' * 100_000)
    done = threading.Event()
    torn = []

    def read() -> None:
        while not done.is_set():
            if path.read_text() not in texts:
                torn.append(True)

    reader = threading.Thread(target=read)
    reader.start()
    for _ in range(100):
        for text in texts:
            write_whole(str(path), text)
    done.set()
    reader.join()
    assert torn == []
