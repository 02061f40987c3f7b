"""What holds of every history of looks, judged by what was seen and done, never by the monitor's own memory."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

from hypothesis import given, settings
from hypothesis import strategies as st

from gpu_tracker.idle.config.settings import Program
from gpu_tracker.idle.decision import Start, Stop, decide, stop_all
from gpu_tracker.idle.gpu_id import GpuId
from gpu_tracker.idle.observation import ActiveUser, GpuUser, Observation, SeenGpu
from gpu_tracker.idle.state import State, with_end
from gpu_tracker.idle.waiting import waiting

WHOLE = (GpuId(0), GpuId(1), GpuId(5))
DIVIDED = (GpuId(0), GpuId(1), GpuId(5, 0), GpuId(5, 1))
ALL_IDS = (*WHOLE, GpuId(5, 0), GpuId(5, 1))
FOREIGN = (GpuUser(17, 'python'),)
ALICE = (ActiveUser('alice', 'pts/3', 1.0),)
LONG = 300.0
NAMES = ('a', 'b', 'c')
NONE = frozenset()
EXAMPLES = 60


class Step(NamedTuple):
    """What happens until the next look, and what that look shows."""

    pause: float
    """Seconds since the look before."""
    crashing: frozenset[str]
    """Programs that end by themselves half-way."""
    busy: frozenset[GpuId]
    gone: frozenset[GpuId]
    divided: bool
    active: bool
    obedience: float
    """Which part of its grace a program takes that is told to stop."""
    configuration: int

    def observation(self) -> Observation:
        there = [gpu for gpu in (DIVIDED if self.divided else WHOLE) if gpu not in self.gone]
        seen = tuple(SeenGpu(gpu, users=FOREIGN if gpu in self.busy else ()) for gpu in there)
        return Observation(seen, ALICE if self.active else ())


CALM = Step(50.0, NONE, NONE, NONE, divided=False, active=False, obedience=1.0, configuration=0)


class Look(NamedTuple):
    time: float
    observation: Observation
    programs: tuple[Program, ...]
    before: State
    before_as_text: str
    after: State
    actions: tuple[Start | Stop, ...]

    def is_free(self, gpu: GpuId) -> bool:
        """Tell whether it showed a GPU that nobody else uses, and nobody at work."""
        seen = {one.gpu: one.busy for one in self.observation.gpus}
        return not self.observation.active and seen.get(gpu, 'gone') is None


@dataclass
class Life:
    """What has really become of a program that was started."""

    program: Program
    gpus: tuple[GpuId, ...]
    start: float
    asked: float | None = None
    gone: float | None = None

    def was_gone(self, time: float) -> bool:
        """Tell whether a look at that time could know that it is gone."""
        return self.gone is not None and self.gone <= time and self.asked != time

    @property
    def cells(self) -> set[tuple[int, int]]:
        """The parts of GPUs that it is on."""
        return {cell for gpu in self.gpus for cell in cells(gpu)}


class World:
    """Programs that run, end and obey, and a monitor that looks at them."""

    def __init__(self, *configurations: tuple[Program, ...]) -> None:
        self.configurations = configurations
        self.now = 0.0
        self.state = State()
        self.steps: list[Step] = []
        self.looks: list[Look] = []
        self.lives: list[Life] = []
        self.due: dict[str, float] = {}
        """When those that were told to stop will be gone."""

    def __repr__(self) -> str:
        """Return all that the rest follows from."""
        return f'World({self.configurations}) after {self.steps}'

    def living(self) -> list[Life]:
        return [life for life in self.lives if life.gone is None]

    def live(self, step: Step) -> None:
        self.steps.append(step)
        half, self.now = self.now + step.pause / 2, self.now + step.pause
        ends = [(time, name) for name, time in self.due.items() if time <= self.now]
        ends += [(half, life.program.name) for life in self.living() if life.program.name in step.crashing]
        for time, name in sorted(ends):
            self.end(name, time)
        self.look(step)

    def end(self, name: str, time: float) -> None:
        for life in self.living():
            if life.program.name == name:
                life.gone = time
                self.state = with_end(self.state, name, time)
        self.due.pop(name, None)

    def look(self, step: Step) -> None:
        programs = self.configurations[step.configuration]
        observation = step.observation()
        before, text = self.state, repr(self.state)
        self.state, actions = decide(programs, before, observation, self.now)
        self.looks.append(Look(self.now, observation, programs, before, text, self.state, actions))
        for action in actions:
            if isinstance(action, Start):
                gpus = tuple(seen.gpu for seen in action.gpus)
                self.lives.append(Life(action.program, gpus, self.now))
            else:
                self.stop(action, step)

    def stop(self, action: Stop, step: Step) -> None:
        (life,) = (life for life in self.living() if life.program.name == action.name)
        assert life.asked is None
        life.asked = self.now
        self.due[action.name] = self.now + step.obedience * life.program.stop_grace


class Memory(NamedTuple):
    """What has to be remembered of a program's ends."""

    row: int = 0
    """Ends that nobody asked for, in a row."""
    not_before: float = 0.0


def memory(program: Program, time: float, world: World) -> Memory:
    """Return what the ends of a program before a look mean for it, added up from its lives in the plainest way."""
    found, since = Memory(), 0.0
    for life in [life for life in world.lives if life.program.name == program.name and life.start < time]:
        if not was_configured(life.program, since, life.start, world):
            found = Memory()
        since = life.start
        if not life.was_gone(time):
            break
        row = 0 if life.gone - life.start >= LONG else found.row + (life.asked is None)
        rest = min(life.program.restart_backoff * 2 ** max(row - 1, 0), LONG)
        found = Memory(row, life.gone + rest if life.asked is None else found.not_before)
    return found if was_configured(program, since, time, world) else Memory()


def was_configured(program: Program, since: float, until: float, world: World) -> bool:
    """Tell whether every look in a time has found a program configured just so."""
    return all(program in look.programs for look in world.looks if since <= look.time <= until)


def idle_time(gpu: GpuId, time: float, world: World) -> float | None:
    """Return for how long every look up to one has shown a GPU free; None: the last did not."""
    looks = [look for look in world.looks if look.time <= time]
    if not looks[-1].is_free(gpu):
        return None
    while len(looks) > 1 and looks[-2].is_free(gpu):
        looks.pop()
    return time - looks[-1].time


def is_idle_for(program: Program, look: Look, world: World) -> bool:
    """Tell whether all GPUs that a program would run on have been idle for as long as it asks for."""
    gpus = [seen.gpu for seen in look.observation.gpus] if program.gpus is None else program.gpus
    times = [idle_time(gpu, look.time, world) for gpu in gpus]
    return times != [] and all(time is not None and time >= program.idle_before_start for time in times)


def has_its_turn(program: Program, look: Look, world: World) -> bool:
    """Tell whether others have to make room for a program for all GPUs."""
    return program.gpus is None and is_idle_for(program, look, world) and memory(program, look.time, world).row == 0


def alive_after(look: Look, world: World) -> list[Life]:
    return [life for life in world.lives if life.start <= look.time and not life.was_gone(look.time)]


def cells(gpu: GpuId) -> set[tuple[int, int]]:
    return {(gpu.number, 0), (gpu.number, 1)} if gpu.mig is None else {(gpu.number, gpu.mig)}


# Drawn from pools, the plainest first: drawing each part on its own takes several times as long. Of a pool of more than
# 127 the first would be drawn most.
EVENTS = (
    *[CALM] * 10,
    *(CALM._replace(busy=frozenset({gpu})) for gpu in ALL_IDS[:3]),
    CALM._replace(busy=frozenset(WHOLE)),
    *(CALM._replace(gone=frozenset({gpu})) for gpu in WHOLE),
    CALM._replace(gone=frozenset(WHOLE)),
    CALM._replace(busy=frozenset({GpuId(0)}), gone=frozenset({GpuId(1)})),
    CALM._replace(divided=True),
    *(CALM._replace(divided=True, busy=frozenset({GpuId(5, mig)})) for mig in (0, 1)),
    *[CALM._replace(active=True)] * 2,
    CALM._replace(active=True, busy=frozenset({GpuId(1)})),
    *[CALM._replace(configuration=1)] * 2,
)
CIRCUMSTANCES = [
    {'pause': pause, 'crashing': frozenset(crashing), 'obedience': obedience}
    for crashing in (NONE, NONE, 'a', 'b', 'c', 'abc')
    for pause in (10.0, 0.5, 1.0, 5.0, 10.0, 400.0)
    for obedience in (0.0, 0.5, 1.0)
]
PLACES = (
    *[None] * 5,
    *[(gpu,) for gpu in ALL_IDS],
    (GpuId(1), GpuId(0)),
    (GpuId(0), GpuId(5)),
    (GpuId(0), GpuId(5, 1)),
)
OPTIONS = [
    {'idle_before_start': idle, 'stop_grace': grace, 'restart_backoff': backoff}
    for idle in (0.0, 1.0, 12.0)
    for grace in (0.0, 5.0, 15.0)
    for backoff in (1.0, 7.0)
]
steps = st.tuples(st.sampled_from(EVENTS), st.sampled_from(CIRCUMSTANCES)).map(lambda two: two[0]._replace(**two[1]))
name_lists = st.sampled_from([NAMES[:1], NAMES[:2], NAMES[::-1], NAMES, NAMES])
configurations = name_lists.flatmap(lambda names: st.tuples(*map(programs_named, names)))


def programs_named(name: str) -> st.SearchStrategy[Program]:
    drawn = st.tuples(st.sampled_from(PLACES), st.sampled_from(OPTIONS))
    return drawn.map(lambda two: Program(name, two[0], ('true',), '/', **two[1]))


@st.composite
def worlds(draw) -> World:
    world = World(draw(configurations), draw(configurations))
    for step in draw(st.lists(steps, min_size=6, max_size=25)):
        world.live(step)
    return world


@st.composite
def calm_worlds(draw) -> World:
    """Return worlds in which nothing has happened for longer than any rest and any idle time that is asked for."""
    world = draw(worlds())
    for _ in range(20):
        world.live(CALM)
    return world


def any_history(test):
    return settings(max_examples=EXAMPLES, deadline=None)(given(world=worlds())(test))


@any_history
def test_a_program_is_gone_from_a_gpu_that_others_use_within_its_grace_after_the_first_look_that_shows_it(world):
    world.live(CALM._replace(active=True))
    world.live(CALM)
    for look in world.looks:
        taken = [gpu for life in world.lives for gpu in life.gpus if not look.is_free(gpu)]
        for life in world.lives:
            if set(life.gpus) & set(taken) and life.start <= look.time and (life.gone or look.time) > look.time:
                assert life.start < look.time
                assert life.asked is not None
                assert life.asked <= look.time
                assert life.gone <= look.time + life.program.stop_grace


@any_history
def test_never_are_two_programs_on_one_gpu(world):
    for number, life in enumerate(world.lives):
        for earlier in world.lives[:number]:
            assert not life.cells & earlier.cells or (earlier.gone is not None and earlier.gone <= life.start)


@any_history
def test_nothing_is_started_while_a_user_is_active(world):
    for look in world.looks:
        assert not look.observation.active or not any(isinstance(action, Start) for action in look.actions)


@any_history
def test_every_start_comes_after_the_idle_time_shown_by_every_look_in_between(world):
    for life in world.lives:
        for gpu in life.gpus:
            assert idle_time(gpu, life.start, world) >= life.program.idle_before_start


@any_history
def test_a_start_is_on_the_gpus_that_the_program_names_or_on_all(world):
    for look in world.looks:
        for action in look.actions:
            if isinstance(action, Start):
                shown = look.observation.gpus
                named = {gpu: seen for seen in shown for gpu in [seen.gpu]}
                own = action.program.gpus
                assert action.program in look.programs
                assert action.gpus == (shown if own is None else tuple(named[gpu] for gpu in own))


@any_history
def test_nobody_is_stopped_without_need(world):
    for look in world.looks:
        for life in world.lives:
            if life.asked == look.time and life.start < look.time and life.program in look.programs:
                room = life.program.gpus is not None and any(program.gpus is None for program in look.programs)
                all_free = all(look.is_free(seen.gpu) for seen in look.observation.gpus)
                assert (room and all_free) or not all(look.is_free(gpu) for gpu in life.gpus)


@any_history
def test_no_restart_comes_before_the_rest_is_over(world):
    for life in world.lives:
        assert life.start >= memory(life.program, life.start, world).not_before


@any_history
def test_room_is_made_only_for_a_program_that_has_its_turn_and_need_not_rest(world):
    for look in world.looks:
        for life in world.lives:
            if life.asked == look.time and life.program in look.programs and all(map(look.is_free, life.gpus)):
                assert any(
                    has_its_turn(program, look, world) and look.time >= memory(program, look.time, world).not_before
                    for program in look.programs
                )


@any_history
def test_no_other_is_started_while_a_program_for_all_has_its_turn(world):
    for look in world.looks:
        started = [action.program for action in look.actions if isinstance(action, Start)]
        if any(program.gpus is not None for program in started):
            settled = any(life.program.gpus is None and life.asked is None for life in alive_after(look, world))
            assert settled or not any(has_its_turn(program, look, world) for program in look.programs)


@any_history
def test_nothing_waits_that_could_be_started(world):
    for look in world.looks:
        alive = alive_after(look, world)
        taken = {cell for life in alive for cell in life.cells}
        for program in look.programs:
            own = [seen.gpu for seen in look.observation.gpus] if program.gpus is None else program.gpus
            if (
                program.name not in {life.program.name for life in alive}
                and is_idle_for(program, look, world)
                and look.time >= memory(program, look.time, world).not_before
                and not taken & {cell for gpu in own for cell in cells(gpu)}
            ):
                assert any(has_its_turn(other, look, world) for other in look.programs if other != program)


@any_history
def test_a_look_leaves_nothing_to_do_that_a_second_decision_would_find(world):
    for look in world.looks:
        assert decide(look.programs, look.after, look.observation, look.time) == (look.after, ())
        for program in look.programs:
            told = waiting(program, look.programs, look.after, look.observation, look.time)
            run = look.after.runs.get(program.name)
            assert (told is None) == (run is not None and run.stopping is None)


@any_history
def test_decisions_change_nothing_that_they_are_given_and_come_out_the_same_again(world):
    for look in world.looks:
        assert repr(look.before) == look.before_as_text
        assert decide(look.programs, look.before, look.observation, look.time) == (look.after, look.actions)
        assert look.after.runs.keys() >= {action.program.name for action in look.actions if isinstance(action, Start)}


@any_history
def test_after_the_monitor_has_begun_to_end_everything_ends_and_nothing_is_started(world):
    running = {life.program.name for life in world.living() if life.asked is None}
    world.state, stops = stop_all(world.state, 'SIGTERM')
    assert {stop.name for stop in stops} == running
    for stop in stops:
        world.stop(stop, CALM)
    started = len(world.lives)
    for _ in range(3):
        world.live(CALM)
    assert len(world.lives) == started
    assert world.living() == []
    assert world.state.runs == {}


@settings(max_examples=EXAMPLES, deadline=None)
@given(world=calm_worlds())
def test_in_calm_the_programs_come_to_rest_and_each_runs_or_has_its_gpus_taken_by_one_that_does(world):
    living = world.living()
    assert [look.actions for look in world.looks[-5:]] == [()] * 5
    taken = {cell for life in living for cell in life.cells}
    for program in world.looks[-1].programs:
        own = WHOLE if program.gpus is None else program.gpus
        wanted = {cell for gpu in own for cell in cells(gpu)}
        runs = any(life.program == program for life in living)
        assert runs or wanted & taken or not set(own) <= set(WHOLE)


@settings(max_examples=EXAMPLES, deadline=None)
@given(world=calm_worlds())
def test_in_calm_a_program_for_all_runs_if_none_has_ever_failed(world):
    for_all = [program for program in world.looks[-1].programs if program.gpus is None]
    if for_all and all(life.asked is not None or life.gone is None for life in world.lives if life.program in for_all):
        assert any(life.program in for_all for life in world.living())


@settings(max_examples=EXAMPLES, deadline=None)
@given(world=worlds(), other=configurations)
def test_a_reload_disturbs_nobody_who_is_configured_as_before(world, other):
    calm = [life for life in world.living() if life.asked is None]
    kept = {life.program.name: life.program for life in calm if life.program.gpus is not None}
    # No program for all GPUs: the others would have to make room for it.
    new = tuple(program for program in other if program.name not in kept and program.gpus is not None)
    world.configurations = (tuple(kept.values()) + new,)
    last = world.looks[-1].observation
    decided = decide(world.configurations[0], world.state, last, world.now)[1]
    stopped = {action.name for action in decided if isinstance(action, Stop)}
    assert stopped == {life.program.name for life in calm} - kept.keys()


def test_the_histories_reach_what_the_properties_are_about():
    """A generator that never starts, stops, divides or restarts anything would let every property pass."""
    reached = set()

    @settings(max_examples=EXAMPLES, deadline=None, database=None, derandomize=True)
    @given(world=worlds())
    def visit(world) -> None:
        for life in world.lives:
            reached.add('for all' if life.program.gpus is None else 'for some')
            reached.add('on a part' if any(gpu.mig is not None for gpu in life.gpus) else 'on the whole')
            reached.add(f'{"ended" if life.asked is None else "stopped"}' if life.gone is not None else 'running')
        for action in (action for look in world.looks for action in look.actions):
            reached.add('makes room' if action.reason.startswith('makes room') else 'another reason')
        for one, other in pairwise(world.lives):
            reached.add('again' if one.program == other.program and one.asked is None else 'another')
        reached.update('in a row' for rest in world.state.rests.values() if rest.failures > 1)

    visit()
    assert reached >= {'for all', 'for some', 'on a part', 'ended', 'stopped', 'makes room', 'again', 'in a row'}
