"""The sampler starts wherever a program runs: without a guard, in a worker, in any folder, from an archive."""

from __future__ import annotations

import importlib.util
import os
import shutil
import sys
import venv
import zipapp
from pathlib import Path

import psutil
import pytest

from support.tracked_program import PACKAGE_PARENT, environment, run, run_words

UNGUARDED = """
import gpu_tracker as gput
with gput.Tracker(ram_unit='bytes') as tracker:
    data = b'x' * 30_000_000
print('rss', tracker.resource_usage.max_ram.main.total_rss > 30_000_000)
"""
SEEN = 'rss True\n'


@pytest.fixture
def script(tmp_path: Path) -> Path:
    path = tmp_path / 'script.py'
    path.write_text(UNGUARDED)
    return path


def test_a_script_without_a_guard(script: Path):
    assert run_words([sys.executable, str(script)]).stdout == SEEN


def test_a_script_read_from_stdin():
    assert run_words([sys.executable, '-'], input=UNGUARDED).stdout == SEEN


def test_a_module_run_with_m(script: Path):
    assert run_words([sys.executable, '-m', 'script'], cwd=script.parent).stdout == SEEN


def test_ipython(tmp_path: Path):
    if importlib.util.find_spec('IPython') is None:
        pytest.skip('needs the package ipython')
    (tmp_path / 'cells.ipy').write_text(UNGUARDED)
    words = [sys.executable, '-m', 'IPython', '--quick', '--colors=nocolor', 'cells.ipy']
    finished = run_words(words, cwd=tmp_path, env=environment({'IPYTHONDIR': str(tmp_path / 'profile')}))
    assert finished.stdout == SEEN


@pytest.mark.parametrize('method', ['fork', 'spawn', 'forkserver'])
def test_a_worker_of_a_pool(tmp_path: Path, method: str):
    (tmp_path / 'pool.py').write_text(f"""
import multiprocessing
import gpu_tracker as gput

def work(size):
    with gput.Tracker(ram_unit='bytes') as tracker:
        data = b'x' * size
    return tracker.resource_usage.max_ram.main.total_rss > size

if __name__ == '__main__':
    with multiprocessing.get_context({method!r}).Pool(2, maxtasksperchild=1) as pool:
        print(pool.map(work, [30_000_000, 40_000_000], chunksize=1))
""")
    words = [sys.executable, '-W', 'ignore::DeprecationWarning', str(tmp_path / 'pool.py')]
    assert run_words(words).stdout == '[True, True]\n'


def test_a_thread():
    assert (
        run(f"""
import threading
thread = threading.Thread(target=exec, args=({UNGUARDED!r}, {{}}))
thread.start()
thread.join()
""").stdout
        == SEEN
    )


def test_two_threads_with_a_tracker_each():
    found = run("""
import threading
import gpu_tracker as gput
trackers = [gput.Tracker(sleep_time=0.01) for _ in range(4)]
def work(tracker):
    with tracker:
        pass
threads = [threading.Thread(target=work, args=(tracker,)) for tracker in trackers]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
print([tracker.resource_usage.max_ram.main.total_rss > 0 for tracker in trackers])
""").stdout
    assert found == '[True, True, True, True]\n'


def test_the_folder_changes_after_the_import_through_a_relative_path(tmp_path: Path):
    program = f"""
import os, sys
sys.path.insert(0, {PACKAGE_PARENT.name!r})
import gpu_tracker
os.chdir({str(tmp_path)!r})
{UNGUARDED}"""
    variables = {name: value for name, value in environment().items() if name != 'PYTHONPATH'}
    assert run(program, cwd=PACKAGE_PARENT.parent, env=variables).stdout == SEEN


def test_the_folder_was_removed(tmp_path: Path):
    folder = tmp_path / 'gone'
    folder.mkdir()
    program = f"""
import os, sys
sys.path.append('relative')
os.rmdir({str(folder)!r})
{UNGUARDED}"""
    assert run(program, cwd=folder).stdout == SEEN


def test_a_read_only_folder(tmp_path: Path):
    tmp_path.chmod(0o555)
    assert run(UNGUARDED, cwd=tmp_path).stdout == SEEN
    assert os.listdir(tmp_path) == []


def test_modules_that_hide_those_of_the_standard_library(script: Path):
    for name in ('os', 'marshal', 'json', 'select', 'psutil', 'pynvml', 'gc', 'traceback', 'resource', 'collections'):
        (script.parent / f'{name}.py').write_text(f"open('{script.parent}/imported', 'a').write('{name} ')\n")
    variables = environment({'PYTHONPATH': f'{script.parent}:{PACKAGE_PARENT}'})
    # The program itself has the standard library first, as it would where it had imported these modules before.
    program = f"""
import sys
import collections, json, resource, select, traceback
import gpu_tracker
sys.path.insert(0, {str(script.parent)!r})
{UNGUARDED}"""
    options = ['-I', '-c', f'import sys; sys.path.append({str(PACKAGE_PARENT)!r})\n{program}']
    assert run_words([sys.executable, *options], cwd=script.parent, env=variables).stdout == SEEN
    assert not (script.parent / 'imported').exists()


def test_a_json_module_beside_the_script(script: Path):
    (script.parent / 'json.py').write_text("raise SystemExit('not that one')\n")
    script.write_text(UNGUARDED + 'print(str(tracker).splitlines()[0])\n')
    assert run_words([sys.executable, str(script)], cwd=script.parent).stdout == f'{SEEN}Max RAM:\n'


def test_a_zip_archive(tmp_path: Path):
    source = tmp_path / 'source'
    shutil.copytree(PACKAGE_PARENT / 'gpu_tracker', source / 'gpu_tracker')
    (source / '__main__.py').write_text('import gpu_tracker, os\nos.chdir("/")\n' + UNGUARDED)
    zipapp.create_archive(source, tmp_path / 'app.pyz', compressed=True)
    variables = {name: value for name, value in environment().items() if name != 'PYTHONPATH'}
    assert run_words([sys.executable, 'app.pyz'], cwd=tmp_path, env=variables).stdout == SEEN


def test_a_virtual_environment_without_links(tmp_path: Path, script: Path):
    folder = tmp_path / 'environment'
    venv.create(folder, symlinks=False)
    (site_packages,) = folder.glob('lib/python*/site-packages')
    (site_packages / 'tested.pth').write_text(f'{PACKAGE_PARENT}\n')
    variables = {name: value for name, value in environment().items() if name != 'PYTHONPATH'}
    assert run_words([str(folder / 'bin' / 'python'), str(script)], env=variables).stdout == SEEN


def test_a_virtual_environment_whose_only_psutil_is_its_own(tmp_path: Path, script: Path):
    folder = tmp_path / 'environment'
    venv.create(folder, symlinks=True)
    (site_packages,) = folder.glob('lib/python*/site-packages')
    shutil.copytree(PACKAGE_PARENT / 'gpu_tracker', site_packages / 'gpu_tracker')
    shutil.copytree(Path(psutil.__file__).parent, site_packages / 'psutil')
    variables = {name: value for name, value in environment().items() if name != 'PYTHONPATH'}
    variables['GPU_TRACKER_READER'] = 'psutil'
    assert run_words([str(folder / 'bin' / 'python'), str(script)], env=variables).stdout == SEEN
