"""What the monitor's status says of its programs: states since when they last, and why, in histories told by hand."""

from __future__ import annotations

from dataclasses import replace

from gpu_tracker.idle.config.idle_settings import GpuId, Program
from gpu_tracker.idle.decision import Start, decide, stop_all
from gpu_tracker.idle.state import GpuUser, Observation, State, WatchedGpu, with_end
from gpu_tracker.idle.status import GpuStatus, MonitorStatus, ProgramStatus
from gpu_tracker.idle.status_report import Tally, status_of

MONITOR = MonitorStatus(123, '6.1.0', '/etc/gpu_mon.conf', '2027-01-15T08:00:00+00:00', 10.0, False, 'alice')
FOLD = Program('fold', (GpuId(0),), ('fold',), '/', restart_backoff=4)
FREE = Observation((WatchedGpu(GpuId(0)),))
TAKEN = Observation((WatchedGpu(GpuId(0), users=(GpuUser(17, 'python'),)),))


class History:
    """What a monitor does at looks and ends, without the programs themselves."""

    def __init__(self, *programs: Program, dry_run: bool = False) -> None:
        self.programs = programs
        self.monitor = replace(MONITOR, dry_run=dry_run)
        self.state = State()
        self.seen = Observation()
        self.tally = Tally()

    def poll(self, now: float, seen: Observation = FREE) -> None:
        self.see(now, seen)
        self.state, actions = decide(self.programs, self.state, seen, now)
        for action in actions:
            if isinstance(action, Start):
                self.tally.add_start(action.program.name, [seen.gpu for seen in action.gpus], now)

    def see(self, now: float, seen: Observation = FREE) -> None:
        """Look without a decision, as the monitor does first of all."""
        self.seen = seen
        self.tally.poll(seen, now)

    def end(self, now: float, text: str = 'exit code 1', *, started: bool = True, name: str = 'fold') -> None:
        self.state = with_end(self.state, name, now)
        self.tally.add_end(name, now, failed=True, text=text, started=started)

    def gpu(self, now: float) -> GpuStatus:
        return self._status(now).gpus[0]

    def program(self, now: float, name: str = 'fold') -> ProgramStatus:
        return next(program for program in self._status(now).programs if program.name == name)

    def told(self, now: float) -> tuple[str, str | None, str | None]:
        """Return the state of the program, since when, and why."""
        program = self.program(now)
        return program.state, program.since, program.reason

    def _status(self, now: float):
        moment = 'at {:g}'.format
        return status_of(self.monitor, self.programs, self.state, self.seen, self.tally, {'fold': 9}, now, moment)


def test_each_state_lasts_since_it_began():
    history = History(FOLD)
    history.poll(0, TAKEN)
    assert history.told(5) == ('waiting', None, 'GPU 0 used by python (pid 17)')
    history.poll(10)
    history.poll(20)
    assert history.told(25) == ('running', 'at 10', None)
    history.poll(30, TAKEN)
    history.poll(40, TAKEN)
    assert history.told(45) == ('stopping', 'at 30', 'GPU 0 used by python (pid 17)')
    history.end(46)
    assert history.told(47) == ('waiting', 'at 46', 'GPU 0 used by python (pid 17)')


def test_a_program_rests_since_its_end_and_waits_since_the_end_of_its_rest():
    history = History(FOLD)
    history.poll(0)
    history.end(8)
    history.poll(10)
    assert history.told(10) == ('resting', 'at 8', 'rests after 1 failure')
    assert history.program(10).next_start == 'at 12'
    history.poll(20, TAKEN)
    assert history.told(25) == ('waiting', 'at 12', 'GPU 0 used by python (pid 17)')
    assert history.program(25).next_start is None
    history.poll(30)
    history.poll(40, TAKEN)
    history.end(42)
    assert history.told(45) == ('waiting', 'at 42', 'GPU 0 used by python (pid 17)')


def test_a_program_is_being_stopped_since_the_monitor_was_told_to_end():
    history = History(FOLD)
    history.poll(0)
    history.state, _ = stop_all(history.state, 'SIGTERM', 5)
    assert history.told(9) == ('stopping', 'at 5', 'the monitor ends: SIGTERM')


def test_a_program_that_nothing_speaks_against_starts_at_the_next_look_and_another_for_its_gpu_does_not():
    history = History(FOLD, replace(FOLD, name='seti'))
    history.see(0)
    assert history.told(1) == ('waiting', None, 'starts at the next look')
    assert history.program(1, 'seti').reason == 'GPU 0 taken by fold'
    assert history.state == State()  # asking changes nothing


def test_how_a_program_has_ended_last_and_that_it_never_ran():
    history = History(FOLD)
    history.poll(0)
    assert history.program(1).last_end is None
    no_log = 'could not be started: its log /nowhere/fold.log cannot be opened'
    history.end(1, no_log, started=False)
    history.poll(10)
    history.end(11, no_log, started=False)
    program = history.program(12)
    assert (program.last_end, program.restarts, program.failures, program.seconds_run) == (no_log, 0, 2, 0.0)
    assert (history.gpu(12).restarts, history.gpu(12).idle_seconds_used) == (0, 0.0)


def test_a_dry_run_uses_no_time():
    history = History(FOLD, dry_run=True)
    history.see(0)
    assert history.told(0) == ('waiting', None, 'would start at the next look')
    history.poll(0)
    assert history.told(5) == ('running', 'at 0', None)
    assert history.program(5).seconds_run is None
    assert history.gpu(5).idle_seconds_used is None
    assert history.gpu(5).program == 'fold'


def test_a_program_that_is_no_longer_configured_is_told_of_until_it_is_gone():
    history = History(FOLD)
    history.poll(0)
    history.programs = ()
    history.poll(10)
    assert history.told(12) == ('stopping', 'at 10', 'no longer configured')
    history.end(13)
    assert history._status(14).programs == ()
