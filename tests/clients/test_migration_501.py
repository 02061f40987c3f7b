"""What docs/migration.rst says of gpu-tracker 5.0.1 and of this version: both do the same things, side by side."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import TYPE_CHECKING

from support.sub_tracking import environment_501, python_501, run_501
from support.tracked_program import answer, environment
from support.waiting import TIMEOUT

if TYPE_CHECKING:
    from pathlib import Path

PROGRAM = """
import inspect, json, logging, os, sys, time
import gpu_tracker as gput
os.chdir(sys.argv[1])
logging.disable(logging.CRITICAL)
facts = {}
is_old = gput.__version__ == '5.0.1'

def raised(use):
    try:
        use()
    except (RuntimeError, ValueError) as error:
        return 'RuntimeError' if isinstance(error, RuntimeError) else 'ValueError'
    except (AttributeError, ImportError):
        return 'missing'
    return 'accepted'

def made(**parameters):
    return raised(lambda: gput.Tracker(disable_logs=True, **parameters))

def imported():
    from gpu_tracker.tracker import ResourceUsage

def assigned():
    tracker.resource_usage.compute_time.time = 3.0

def stopped_within():
    with gput.Tracker(disable_logs=True) as inner:
        inner.stop()

facts['defaults'] = {name: each.default for name, each in inspect.signature(gput.Tracker).parameters.items()}
facts['places'] = list(facts['defaults'])[:14]
tracker = gput.Tracker(disable_logs=True, time_unit='seconds', ram_unit='megabytes')
facts['states'] = [state.value for state in gput.Tracker.State]
facts['stop before start'] = raised(tracker.stop)
facts['result before the end'] = raised(lambda: tracker.resource_usage)
facts['text before the end'] = raised(lambda: str(tracker))
tracker.start()
while is_old and not os.listdir('.'):  # its process makes the file when it has started
    time.sleep(0.01)
facts['files while tracking'] = len(os.listdir('.'))
time.sleep(0.3)
facts['second start'] = raised(tracker.start)
tracker.stop()
facts['second stop'] = raised(tracker.stop)
facts['files after'] = os.listdir('.')
facts['keys'] = {name: sorted(section) for name, section in tracker.to_json().items() if name != 'control_group'}
facts['lines'] = [line.partition(':')[0] for line in str(tracker).partition('Control group')[0].splitlines()]
facts['seconds'] = tracker.resource_usage.compute_time.time
facts['assigning'] = raised(assigned)
facts['from gpu_tracker.tracker'] = raised(imported)
facts['stop within the block'] = raised(stopped_within)
facts['sleep_time=0.05'] = made(sleep_time=0.05)
facts['ram_unit=mb'] = made(ram_unit='mb')
facts['n_expected_cores'] = [made(n_expected_cores=cores) for cores in (0, 2.0, '3')]
facts['gpu_uuids'] = None if is_old else made(gpu_uuids={'GPU-1'})
facts['process_id'] = made(process_id=2**30)
facts['other ending'] = made(tracking_file='run.db')
with gput.Tracker(disable_logs=True, resource_usage_file='usage') as kept:
    while not (os.path.exists('usage') and (first := open('usage', 'rb').read(1))):  # it may just be written anew
        time.sleep(0.01)
    facts['usage file begins'] = first.hex()
facts['usage file stays'] = os.path.exists('usage')
print(json.dumps(facts))
"""
SAME = {
    'stop before start': 'RuntimeError',
    'text before the end': 'RuntimeError',
    'second start': 'RuntimeError',
    'second stop': 'RuntimeError',
    'files after': [],
}
THEIRS = {
    'states': [0, 1, 2],
    'ram_unit=mb': 'ValueError',
    'result before the end': 'accepted',
    'files while tracking': 1,
    'assigning': 'accepted',
    'from gpu_tracker.tracker': 'accepted',
    'stop within the block': 'RuntimeError',
    'sleep_time=0.05': 'ValueError',
    'n_expected_cores': ['accepted', 'accepted', 'accepted'],
    'process_id': 'accepted',
    'other ending': 'ValueError',
    'usage file begins': '80',  # a pickle
    'usage file stays': False,
}
OURS = {
    'states': ['new', 'started', 'stopped'],
    'ram_unit=mb': 'accepted',
    'result before the end': 'RuntimeError',
    'files while tracking': 0,
    'assigning': 'missing',  # FrozenInstanceError is an AttributeError
    'from gpu_tracker.tracker': 'missing',
    'stop within the block': 'accepted',
    'sleep_time=0.05': 'accepted',
    'n_expected_cores': ['ValueError', 'ValueError', 'ValueError'],
    'gpu_uuids': 'ValueError',
    'process_id': 'ValueError',
    'other ending': 'accepted',
    'usage file begins': '7b',  # {
    'usage file stays': True,
}
COMMON = ['sleep_time', 'ram_unit', 'gpu_ram_unit', 'time_unit', 'n_expected_cores', 'gpu_uuids', 'disable_logs']
COMMON += ['process_id', 'resource_usage_file', 'n_join_attempts', 'join_timeout', 'gpu_brand']


def test_what_programs_meet(tmp_path: Path) -> None:
    for name in ('theirs', 'ours'):
        (tmp_path / name).mkdir()
    theirs, ours = run_501(PROGRAM, tmp_path / 'theirs'), answer(PROGRAM, tmp_path / 'ours')

    for both in (theirs, ours):
        assert {name: both[name] for name in SAME} == SAME
        assert both['places'][:12] == COMMON
    assert theirs['places'][12:] == ['tracking_file', 'overwrite']
    assert ours['places'][12:] == ['max_overhead_percent', 'cuda']
    assert {name: ours['defaults'][name] for name in theirs['defaults']} == theirs['defaults']
    assert (ours['keys'], ours['lines']) == (theirs['keys'], theirs['lines'])
    assert {name: theirs[name] for name in THEIRS} == THEIRS
    assert {name: ours[name] for name in OURS} == OURS
    assert ours['seconds'] >= 0.3


COMMANDS = {
    'quoted': ('-e', "sh -c 'exit 3'"),
    'not there': ('-e', 'no-such-command'),
    'variable': ('-e', 'echo $FOO'),
    'mistake': ('-e', 'true', '--ru=pages'),
    'tconfig': ('-e', 'true', '--tconfig=c.json'),
    'version': ('-v',),
}


def ran(words: list[str], folder: Path, env: dict[str, str]) -> dict[str, subprocess.CompletedProcess[str]]:
    """Run all commands in a folder, and return how each ended."""
    folder.mkdir()
    (folder / 'c.json').write_text(json.dumps({'ram_unit': 'bytes'}))
    return {
        name: subprocess.run(
            [*words, *options],
            cwd=folder,
            env={**env, 'FOO': 'bar'},
            capture_output=True,
            text=True,
            timeout=TIMEOUT,
            check=False,
        )
        for name, options in COMMANDS.items()
    }


def test_what_commands_meet(tmp_path: Path) -> None:
    theirs = ran([python_501(), '-m', 'gpu_tracker'], tmp_path / 'theirs', environment_501())
    ours = ran([sys.executable, '-m', 'gpu_tracker'], tmp_path / 'ours', environment())
    codes = {name: (theirs[name].returncode, ours[name].returncode) for name in COMMANDS}
    assert codes == {
        'quoted': (0, 3),
        'not there': (1, 127),
        'variable': (0, 0),
        'mistake': (1, 125),
        'tconfig': (0, 0),
        'version': (0, 0),
    }
    complete = 'Resource tracking complete. Process completed with status code: 0\n'
    assert theirs['variable'].stdout.startswith(f'$FOO\n{complete}Max RAM:\n')
    assert ours['variable'].stdout.startswith('bar\nMax RAM:\n')
    assert ours['variable'].stderr == complete
    assert 'Traceback' in theirs['mistake'].stderr
    assert ours['mistake'].stderr.startswith('gpu-tracker: --ru must be ')
    assert ours['tconfig'].stdout.startswith('Max RAM:\n   Unit: bytes\n')
    assert (theirs['version'].stdout, ours['version'].stdout) == ('5.0.1\n', 'gpu-tracker 6.0.0\n')
    assert os.listdir(tmp_path / 'ours') == ['c.json']
