"""Since when GPUs are idle or busy, how often programs started, and how long they ran: histories with known sums."""

from __future__ import annotations

from gpu_tracker.idle.config.idle_settings import GpuId
from gpu_tracker.idle.state import GpuUser, Observation, WatchedGpu
from gpu_tracker.idle.status import GpuStatus, ProcessStatus
from gpu_tracker.idle.status_report import ProgramCount, Tally

ZERO, ONE = GpuId(0), GpuId(1)
PYTHON = GpuUser(17, 'python', 'bob')


def saw(*gpus: WatchedGpu) -> Observation:
    return Observation(gpus)


def told(tally: Tally, now: float, **pids: int) -> tuple[GpuStatus, ...]:
    """Return what the tally tells, with monotonic times for moments."""
    return tally.gpus(now, lambda moment: f'at {moment:g}', pids)


def test_before_the_first_look_there_is_nothing_to_tell():
    assert told(Tally(), 5) == ()
    assert Tally().program('fold', 5) == ProgramCount(0, 0, 0.0, None)


def test_a_state_lasts_from_the_first_look_that_shows_it():
    tally = Tally()
    tally.poll(saw(WatchedGpu(ZERO, 'GPU-a')), 10)
    tally.poll(saw(WatchedGpu(ZERO, 'GPU-a')), 20)
    assert told(tally, 25) == (GpuStatus('0', 'idle', 'GPU-a', 'at 10'),)
    tally.poll(saw(WatchedGpu(ZERO, 'GPU-a', (PYTHON,))), 30)
    tally.poll(saw(WatchedGpu(ZERO, 'GPU-a', (GpuUser(18, 'sh'),))), 40)
    (gpu,) = told(tally, 45)
    assert gpu == GpuStatus(
        '0', 'busy', 'GPU-a', 'at 30', (ProcessStatus(18, 'sh', None),), reason='used by sh (pid 18)'
    )
    tally.poll(saw(WatchedGpu(ZERO, 'GPU-a')), 50)
    assert told(tally, 55) == (GpuStatus('0', 'idle', 'GPU-a', 'at 50'),)


def test_load_makes_busy_and_a_problem_unavailable_even_where_somebody_uses_it():
    tally = Tally()
    tally.poll(saw(WatchedGpu(ZERO, load='95 % utilization'), WatchedGpu(ONE, users=(PYTHON,), problem='is lost')), 10)
    assert told(tally, 10) == (
        GpuStatus('0', 'busy', since='at 10', reason='95 % utilization'),
        GpuStatus('1', 'unavailable', since='at 10', by=(ProcessStatus(17, 'python', 'bob'),), reason='is lost'),
    )


def test_a_gpu_that_goes_and_comes_again_keeps_its_sums():
    tally = Tally()
    tally.poll(saw(WatchedGpu(ZERO, 'GPU-a'), WatchedGpu(ONE)), 0)
    tally.add_start('fold', [ZERO], 1)
    tally.add_end('fold', 4)
    tally.poll(saw(WatchedGpu(ONE)), 10)
    assert told(tally, 11)[0] == GpuStatus(
        '0', 'unavailable', since='at 10', reason='is not there', idle_seconds_used=3.0
    )
    tally.poll(saw(WatchedGpu(ZERO, 'GPU-a'), WatchedGpu(ONE)), 20)
    tally.add_start('fold', [ZERO], 21)
    assert told(tally, 22) == (
        GpuStatus('0', 'idle', 'GPU-a', 'at 20', program='fold', restarts=1, idle_seconds_used=4.0),
        GpuStatus('1', 'idle', since='at 0'),
    )


def test_starts_after_the_first_are_restarts_and_all_runs_are_summed_up_for_gpus_and_programs():
    tally = Tally()
    tally.poll(saw(WatchedGpu(ZERO), WatchedGpu(ONE)), 0)
    tally.add_start('fold', [ZERO, ONE], 10)
    assert tally.program('fold', 12.5) == ProgramCount(0, 0, 2.5, 10)
    assert [gpu.idle_seconds_used for gpu in told(tally, 12.5)] == [2.5, 2.5]
    tally.add_end('fold', 20)
    tally.add_start('seti', [ONE], 30)
    tally.add_end('seti', 31, failed=True)
    tally.add_start('seti', [ONE], 40)
    tally.add_end('seti', 43, failed=True)
    tally.add_start('fold', [ZERO, ONE], 50)
    assert tally.program('fold', 55) == ProgramCount(restarts=1, failures=0, seconds_run=15.0, changed=50)
    assert tally.program('seti', 55) == ProgramCount(restarts=1, failures=2, seconds_run=4.0, changed=43)
    assert told(tally, 55, fold=99, other=1) == (
        GpuStatus('0', 'idle', since='at 0', program='fold', program_pid=99, restarts=1, idle_seconds_used=15.0),
        GpuStatus('1', 'idle', since='at 0', program='fold', program_pid=99, restarts=3, idle_seconds_used=19.0),
    )


def test_a_program_without_a_known_process_is_told_all_the_same():
    tally = Tally()
    tally.add_start('fold', [ZERO], 3)
    assert told(tally, 4) == (
        GpuStatus('0', 'unavailable', reason='is not there', program='fold', idle_seconds_used=1.0),
    )


def test_an_end_without_a_start_counts_no_time():
    tally = Tally()
    tally.poll(saw(WatchedGpu(ZERO)), 0)
    tally.add_end('fold', 10, failed=True)
    assert tally.program('fold', 11) == ProgramCount(0, 1, 0.0, 10)
    assert told(tally, 11) == (GpuStatus('0', 'idle', since='at 0'),)


def test_a_start_that_has_failed_counts_neither_as_a_start_nor_as_time():
    tally = Tally()
    tally.poll(saw(WatchedGpu(ZERO)), 0)
    for now in (10, 20, 30):
        tally.add_start('fold', [ZERO], now)
        tally.add_end('fold', now + 1, failed=True, text='could not be started: no such file', started=False)
    no_log = 'could not be started: no such file'
    assert tally.program('fold', 40) == ProgramCount(0, 3, 0.0, changed=31, last_end=no_log)
    assert told(tally, 40) == (GpuStatus('0', 'idle', since='at 0'),)
    for now in (50, 60):
        tally.add_start('fold', [ZERO], now)
        tally.add_end('fold', now + 2)
    assert tally.program('fold', 70) == ProgramCount(restarts=1, failures=3, seconds_run=4.0, changed=62)
    assert told(tally, 70) == (GpuStatus('0', 'idle', since='at 0', restarts=1, idle_seconds_used=4.0),)


def test_how_a_program_has_ended_last_is_kept_while_it_runs_again():
    tally = Tally()
    tally.add_start('fold', [ZERO], 1)
    assert tally.program('fold', 2).last_end is None
    tally.add_end('fold', 3, text='exit code 1')
    tally.add_start('fold', [ZERO], 4)
    assert tally.program('fold', 5).last_end == 'exit code 1'


def test_gpus_come_in_order_and_a_gpu_put_into_mig_mode_gives_way_to_its_devices():
    tally = Tally()
    tally.poll(saw(WatchedGpu(GpuId(10)), WatchedGpu(ONE), WatchedGpu(ZERO)), 0)
    assert [gpu.gpu for gpu in told(tally, 1)] == ['0', '1', '10']
    tally.poll(saw(WatchedGpu(GpuId(1, 10)), WatchedGpu(GpuId(1, 2)), WatchedGpu(ZERO)), 5)
    assert [(gpu.gpu, gpu.state) for gpu in told(tally, 6)] == [
        ('0', 'idle'),
        ('1:2', 'idle'),
        ('1:10', 'idle'),
        ('10', 'unavailable'),
    ]
    tally.poll(saw(WatchedGpu(ONE), WatchedGpu(ZERO)), 7)
    assert [gpu.gpu for gpu in told(tally, 8)] == ['0', '1', '10']


def test_gpus_that_are_not_watched_any_more_are_forgotten_with_their_sums():
    tally = Tally()
    tally.poll(saw(WatchedGpu(ZERO), WatchedGpu(ONE)), 0)
    tally.add_start('fold', [ZERO], 1)
    tally.keep(lambda gpu: gpu == ONE)
    assert told(tally, 2) == (GpuStatus('1', 'idle', since='at 0'),)
    tally.add_end('fold', 3)
    assert tally.program('fold', 4) == ProgramCount(0, 0, 2.0, 3)
