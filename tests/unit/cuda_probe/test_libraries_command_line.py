"""The executables that a command line names."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from gpu_tracker.cuda_probe.libraries import executables

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """Return a folder with programs: train, sub/train, sub/deep/train, bin/tool (on PATH), and a file data."""
    for name in ('train', 'sub/train', 'sub/deep/train', 'bin/tool', 'with blank/train'):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b'\x7fELF')
        path.chmod(0o755)
    (tmp_path / 'data').write_bytes(b'')
    return tmp_path


def found(place: Path, *command: str) -> list[str]:
    """Return the executables that a command names which is started in the place."""
    named = dict.fromkeys(executables(command, str(place / 'bin'), str(place)))
    return [path.removeprefix(f'{place}/') for path in named]


@pytest.mark.parametrize(
    ('command', 'programs'),
    [
        ((), []),
        (('./train', '--epochs=3', './data'), ['train']),
        (('tool', 'train'), ['bin/tool']),  # a bare word is looked for on PATH alone
        (('tool', 'A=B', './train'), ['bin/tool', 'train']),
        (('sh', '-c', '--', 'cd sub && ./train'), ['train', 'sub/train']),  # which of them, only the shell knows
        (('sh', '-c', '--', 'cd sub;./train>log'), ['train', 'sub/train']),
        (('sh', '-c', '--', 'cd sub; cd deep; ./train'), ['train', 'sub/train', 'sub/deep/train']),
        (('sh', '-c', '--', 'A=B tool|./train 2>&1'), ['bin/tool', 'train']),
        (('sh', '-c', '--', "'with blank/train' x"), ['with blank/train']),
        (('with blank/train',), ['with blank/train']),
        (('sh', '-c', '--', "./train 'never closed"), ['train']),
        (('x',) * 300 + ('tool',), []),
    ],
)
def test_of_each_command_its_programs_are_found(place: Path, command: tuple[str, ...], programs: list[str]) -> None:
    assert found(place, *command) == programs


def test_absolute_paths_mean_the_same_anywhere(place: Path) -> None:
    assert found(place, f'{place}/sub/../train') == ['train']
    assert list(executables([f'{place}/train'], None, '/nowhere')) == [f'{place}/train'] * 2


def test_links_lead_to_other_folders_which_count_too(place: Path) -> None:
    (place / 'sub/linked').symlink_to(place / 'bin/tool')
    assert found(place, 'sub/linked') == ['sub/linked', 'bin/tool']


def test_the_home_folder_of_the_user_is_known(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv('HOME', str(place / 'sub'))
    assert found(place, 'sh', '-c', '--', '~/train') == ['sub/train']


@pytest.mark.parametrize(
    ('first_line', 'interpreters'),
    [
        (b'#!%(place)s/train\n', ['train']),
        (b'#! %(place)s/train -u\nrest', ['train']),
        (b'#!%(place)s/bin/tool train\n', ['bin/tool']),
        (b'#!%(place)s/sub/train tool\n', ['sub/train', 'bin/tool']),  # as env does
        (b'#!', []),
        (b'', []),
    ],
)
def test_the_interpreters_of_scripts_are_found(place: Path, first_line: bytes, interpreters: list[str]) -> None:
    script = place / 'script.py'
    script.write_bytes(first_line % {b'place': str(place).encode()})
    script.chmod(0o755)
    assert found(place, './script.py') == ['script.py', *interpreters]
