"""A training job as its user sees it: three workers on two GPUs, one of them killed; recorded, shown and compared."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import gpu_tracker as gput
from support.cli_program import PROGRAM, Marked
from support.gpus.gpu_machine import GB, Machine
from support.simulated_nvml import Gpu, Process
from support.trace_rules import checked

if TYPE_CHECKING:
    from collections.abc import Sequence

TRAINING = Path(__file__).parents[2] / 'examples' / 'train_in_regions.py'


def gpus_used_by(pids: Sequence[int]) -> list[Gpu]:
    """Return two GPUs on which the workers are: 1 GB each, and 40 % busy."""
    return [
        Gpu(
            total=8 * GB,
            used=GB * len(pids[number::2]),
            util=40 if pids else 0,
            processes=[Process(pid, memory=GB) for pid in pids[number::2]],
        )
        for number in range(2)
    ]


def trained(machine: Machine, recording: Path, megabytes: int) -> dict:
    """Run the job on ``machine`` with what records it, and return the report that was printed."""
    marked = Marked()
    machine.write(gpus=gpus_used_by([]))
    has_ended = threading.Event()

    def follow() -> None:
        known: list[int] = []
        while not has_ended.wait(0.01):
            workers = sorted(pid for pid in marked.processes(TRAINING.name) if pid not in known)
            if workers:
                known += workers
                machine.write(gpus=gpus_used_by(known))

    follower = threading.Thread(target=follow)
    follower.start()
    options = ['--st=0.1', '--tu=seconds', '--ru=megabytes', '-f', 'json', f'--tf={recording}']
    try:
        finished = subprocess.run(
            [*PROGRAM, *options, '--', sys.executable, str(TRAINING), str(megabytes)],
            env=machine.environment(marked.environment),
            capture_output=True,
            text=True,
            check=True,
        )
    finally:
        has_ended.set()
        follower.join()
    printed, _, report = finished.stdout.partition('\n')
    assert printed == 'workers ended with 0 0 -9'
    return json.loads(report)


@pytest.fixture(scope='module')
def runs(tmp_path_factory: pytest.TempPathFactory) -> tuple[Machine, list[Path], list[dict]]:
    machine = Machine(tmp_path_factory.mktemp('machine'))
    folder = tmp_path_factory.mktemp('runs')
    recordings = [folder / 'old.db', folder / 'new.db']
    return machine, recordings, [trained(machine, recordings[0], 40), trained(machine, recordings[1], 160)]


def test_the_summary_is_what_was_printed(runs) -> None:
    _, recordings, printed = runs
    for recording, report in zip(recordings, printed, strict=True):
        with gput.load(recording) as loaded:
            assert json.loads(json.dumps(loaded.summary().to_dict())) == report
            assert loaded.meta.is_complete
            assert len(loaded.gpus) == 2


def test_each_region_has_its_calls_and_what_was_killed_has_not_ended(runs) -> None:
    _, recordings, _ = runs
    with gput.load(recordings[0]) as loaded:
        calls = {name: [r for r in loaded.regions if r.name == name] for name in ('training', 'epoch', 'step', 'save')}
        assert {name: len(found) for name, found in calls.items()} == {
            'training': 1, 'epoch': 6, 'step': 12, 'save': 5,
        }  # fmt: skip
        (killed,) = [region for region in loaded.regions if not region.has_ended]
        assert (killed.name, dict(killed.attributes)) == ('epoch', {'worker': 2, 'epoch': 1})
        epochs = {region.id for region in calls['epoch']}
        assert {region.parent_id for region in calls['step'] + calls['save']} <= epochs
        loads = [region for region in loaded.regions if region.name == 'load']
        assert [region.name for region in loads] == ['load'] * 6
        assert all(region.ram.value is None or region.ram.value > 40e6 for region in loads)
        (training,) = calls['training']
        assert training.gpu_coverage == pytest.approx(1.0, abs=0.5)
        assert training.gpu_ram >= GB


def test_it_is_shown_as_a_tree(runs) -> None:
    machine, recordings, printed = runs
    code, text, errors = machine.told('show', str(recordings[0]))
    assert (code, errors) == (0, '')
    lines = text.splitlines()
    assert lines[0].endswith('train_in_regions.py 40')
    table = [line.split()[:2] for line in lines[next(n for n, line in enumerate(lines) if line.startswith('Region')) :]]
    assert table[1:6] == [['training', '1'], ['epoch', '6'], ['load', '6'], ['step', '12'], ['save', '5']]
    code, text, _ = machine.told('show', '-f', 'json', str(recordings[0]))
    assert code == 0
    assert json.loads(text)['summary'] == printed[0]


def test_its_trace_keeps_the_rules_of_the_format(runs) -> None:
    machine, recordings, _ = runs
    code, text, errors = machine.told('export', '-f', 'chrome-trace', str(recordings[0]))
    assert (code, errors) == (0, '')
    assert checked(text.encode())


def test_two_runs_are_compared(runs) -> None:
    machine, recordings, _ = runs
    groups = [f'old={recordings[0]}', f'new={recordings[1]}']
    code, text, errors = machine.told('compare', *groups, '--fail-if', 'max_ram.combined > +5 %')
    assert code == 1
    assert errors.startswith('gpu-tracker: max_ram.combined > +5 %: max_ram.combined.total_rss grew by ')
    assert 'regions.load.ram' in text
    comparison = gput.compare({'old': [recordings[0]], 'new': [recordings[1]]})
    (ram,) = [figure for figure in comparison.figures if figure.name == 'max_ram.combined.total_rss']
    assert ram.ratio > 1.5
