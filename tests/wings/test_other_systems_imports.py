"""What is imported on macOS and Windows, as far as that shows on Linux; scripts/test.sh checks the types as well."""

from __future__ import annotations

import json
import os
import subprocess
from typing import TYPE_CHECKING

import pytest

from support.other_system import SYSTEMS, interpreter
from support.type_checks import unchecked

if TYPE_CHECKING:
    from pathlib import Path

IMPORTS_ALL = """\
import fnmatch, importlib, pkgutil, sys
import gpu_tracker, gpu_tracker.errors, gpu_tracker.processes
assert gpu_tracker.processes.default_reader() == 'psutil'

def is_for_others(name):
    return any(fnmatch.fnmatch(name, pattern) for pattern in sys.argv[1:])

for module in pkgutil.walk_packages(gpu_tracker.__path__, 'gpu_tracker.', onerror=lambda name: None):
    if not is_for_others(module.name):
        try:
            importlib.import_module(module.name)
        except gpu_tracker.errors.MissingPackageError:
            pass  # of a launcher of jobs, which is installed for its own tests alone
        except Exception as error:
            print(f'{module.name}: {type(error).__name__}: {error}')
print('imported', len([name for name in sys.modules if name.startswith('gpu_tracker')]), file=sys.stderr)
"""

WORDS = """\
import json, sys
from gpu_tracker.cli import command_words
print(json.dumps([command_words.words_to_start(command, [sys.argv[1]]) for command in json.loads(sys.argv[2])]))
"""


@pytest.mark.parametrize('system', SYSTEMS)
def test_every_module_that_is_for_all_systems_is_imported_there(system: str, tmp_path: Path) -> None:
    patterns = [name.removesuffix('.*') + suffix for name in unchecked(system) for suffix in ('', '.*')]
    ended = subprocess.run(
        [interpreter(tmp_path, system), '-c', IMPORTS_ALL, *patterns], capture_output=True, text=True, check=False
    )
    assert ended.stdout == ''
    assert ended.returncode == 0
    assert int(ended.stderr.split()[-1]) > 200


def test_what_windows_starts_itself_and_what_its_shell_does(tmp_path: Path) -> None:
    for name in ('train.exe', 'batch.bat'):
        (tmp_path / name).touch(mode=0o755)
    commands = {
        'train --lr=1': None,  # cmd takes an equals sign for a blank
        r'train --data C:\data "two words"': ['train', '--data', r'C:\data', 'two words'],
        'train.exe 1': ['train.exe', '1'],
        "train 'a b'": None,  # cmd knows no such quotes
        'train "%PATH%"': None,
        'batch 1': None,
        'dir': None,
    }
    words = [interpreter(tmp_path, 'win32'), '-c', WORDS, str(tmp_path), json.dumps(list(commands))]
    environment = {**os.environ, 'COMSPEC': r'C:\Windows\system32\cmd.exe'}
    ended = subprocess.run(words, capture_output=True, text=True, check=True, env=environment)
    shell = [environment['COMSPEC'], '/c']
    assert json.loads(ended.stdout) == [found or [*shell, command] for command, found in commands.items()]
