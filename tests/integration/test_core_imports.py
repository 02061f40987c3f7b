"""What the core imports: nothing at ``import gpu_tracker``, and no wing for a run."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from support.release_checks import WINGS
from support.tracked_program import answer, run

if TYPE_CHECKING:
    from pathlib import Path

IMPORTED = """
import json, sys
bare = set(sys.modules)

def imported(*names):
    return [name for name in sorted(set(sys.modules) - bare) if name in names or name.startswith(tuple(
        f'{package}.' for package in names))]
"""


def test_importing_the_package_imports_only_what_tests_may_replace() -> None:
    assert answer(
        """
import json, sys
bare = set(sys.modules)
import gpu_tracker
print(json.dumps(sorted(set(sys.modules) - bare - {'__future__'})))
"""
    ) == ['fcntl', 'gpu_tracker', 'gpu_tracker.real', 'gpu_tracker.version']


TRACKER = """
import gpu_tracker as gput
with gput.Tracker(tracking_file=sys.argv[1], sections=['io'], disable_logs=True) as tracker:
    pass
text, values = str(tracker), tracker.to_json()
"""
COMMAND = """
from gpu_tracker.cli import main
assert main(['--tf=' + sys.argv[1], '--', 'true']) == 0
"""
HELP = """
from gpu_tracker.cli import main
assert main(['--help']) == 0
"""


@pytest.mark.parametrize('use', [TRACKER, COMMAND, HELP], ids=['tracker', 'command', 'help'])
def test_a_run_imports_no_wing_and_nothing_that_the_sampler_reads_with(tmp_path: Path, use: str) -> None:
    names = [*(f'gpu_tracker.{name}' for name in WINGS), 'psutil', 'pynvml']
    finished = run(f'{IMPORTED}{use}print(json.dumps(imported(*{names!r})))', tmp_path / 'run.db')
    assert finished.stdout.splitlines()[-1] == '[]'


def test_a_recording_and_the_gpus_are_read_without_a_wing(tmp_path: Path) -> None:
    names = [f'gpu_tracker.{name}' for name in WINGS]
    program = f"""{IMPORTED}
import gpu_tracker as gput
with gput.Tracker(tracking_file=sys.argv[1], disable_logs=True), gput.region('part'):
    pass
regions = [region.name for region in gput.load(sys.argv[1]).regions]
gput.gpu_info()
print(json.dumps([regions, imported(*{names!r})]))
"""
    assert answer(program, tmp_path / 'run.db') == [['part'], []]
