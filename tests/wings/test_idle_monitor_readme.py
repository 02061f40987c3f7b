"""The two examples of gpu_mon's README run as they are, while others take GPUs and leave them."""

from __future__ import annotations

import pytest

from support.idle.idle_configuration import TWO_README_EXAMPLES
from support.idle.idle_monitor import IdleMonitor, device_node, foreign, make_gpus, make_program
from support.own_network import OwnTerminal, OwnTerminals
from support.tracked_program import as_root
from support.waiting import eventually

pytestmark = as_root  # terminals are looked at: those of the tester must not be there

FOR_ALL, FOR_EACH = TWO_README_EXAMPLES

USER = 54_321
"""Nobody's number."""

MINER = """
for gpu in $(echo "$CUDA_VISIBLE_DEVICES" | tr , ' '); do
    sleep 3600 < "$(dirname "$0")/../gpus/nvidia$gpu" &
done
wait
"""
"""Opens its GPUs in grandchildren of the monitor's guardian."""


@pytest.fixture
def terminals():
    with OwnTerminals() as terminals:
        yield terminals


@pytest.fixture
def monitor(request, tmp_path, terminals):
    """Start a monitor with a README example on a device node and a file."""
    make_program(tmp_path, 'miner-run', MINER)
    with device_node(tmp_path), IdleMonitor(tmp_path, request.param, words=terminals.words()) as monitor:
        yield monitor


def users(monitor, gpu):
    """Return the processes of others that the monitor sees on a GPU."""
    return [user.pid for user in monitor.gpu(gpu).by]


@pytest.mark.parametrize('monitor', [FOR_ALL], indirect=True)
def test_a_program_for_all_gpus_leaves_when_somebody_takes_one(monitor):
    first = monitor.running('all')
    assert monitor.status().monitor.interval_seconds == 10
    with foreign(monitor.gpus / 'nvidia1') as pid:
        assert monitor.not_running('all').startswith(f'GPU 1 used by sh (pid {pid}')
        with foreign(monitor.gpus / 'nvidia0') as other:
            eventually(lambda: users(monitor, '0') == [other])
            assert users(monitor, '1') == [pid]
        eventually(lambda: users(monitor, '0') == [])
        assert monitor.program('all').state == 'waiting'
    assert monitor.running('all') != first


@pytest.mark.parametrize('monitor', [FOR_ALL], indirect=True)
def test_a_program_for_all_gpus_leaves_when_somebody_takes_all(monitor):
    first = monitor.running('all')
    with foreign(monitor.gpus / 'nvidia0'), foreign(monitor.gpus / 'nvidia1'):
        monitor.not_running('all')
    assert monitor.running('all') != first


@pytest.mark.parametrize('monitor', [FOR_EACH], indirect=True)
def test_programs_for_one_gpu_each_leave_when_somebody_takes_theirs(monitor):
    first, second = monitor.running('0'), monitor.running('1')
    with foreign(monitor.gpus / 'nvidia0') as pid:
        assert monitor.not_running('0').startswith(f'GPU 0 used by sh (pid {pid}')
        assert monitor.running('1') == second
        with foreign(monitor.gpus / 'nvidia1'):
            monitor.not_running('1')
            assert users(monitor, '0') == [pid]
        assert monitor.running('1') != second
        assert monitor.program('0').state == 'waiting'
    assert monitor.running('0') != first


@pytest.mark.parametrize('monitor', [FOR_EACH], indirect=True)
def test_somebody_takes_both_gpus_at_once(monitor):
    first, second = monitor.running('0'), monitor.running('1')
    with foreign(monitor.gpus / 'nvidia0'), foreign(monitor.gpus / 'nvidia1'):
        monitor.not_running('0')
        monitor.not_running('1')
    assert monitor.running('0') != first
    assert monitor.running('1') != second
    assert monitor.end() == 0


def test_nothing_runs_while_somebody_types(tmp_path, terminals):
    make_gpus(tmp_path, 2)
    make_program(tmp_path, 'miner-run')
    terminal = OwnTerminal(terminals, USER)
    text = FOR_EACH.replace('interval_seconds=10', 'interval_seconds=0.1')
    with IdleMonitor(tmp_path, text, words=terminals.words()) as monitor:
        first, second = monitor.running('0'), monitor.running('1')
        terminal.type()
        reason = f'{USER} at {terminal.name} is active'
        assert monitor.not_running('0') == monitor.not_running('1') == reason
        assert [(user.user, user.terminal) for user in monitor.status().active_users] == [(str(USER), terminal.name)]
        terminal.rest()
        assert monitor.running('0') != first
        assert monitor.running('1') != second
        assert f'stopping process-0: {reason}' in monitor.log
