"""Histories of looks at a small world, and what they have to lead to, added up in the plainest way."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

from hypothesis import strategies as st

from gpu_tracker.idle.config.idle_settings import GpuId, Program
from gpu_tracker.idle.decision import Start, Stop, decide
from gpu_tracker.idle.state import ActiveUser, GpuUser, Observation, State, WatchedGpu, with_end

if TYPE_CHECKING:
    from collections.abc import Sequence

WHOLE = (GpuId(0), GpuId(1), GpuId(5))
DIVIDED = (GpuId(0), GpuId(1), GpuId(5, 0), GpuId(5, 1))
ALL_IDS = (*WHOLE, GpuId(5, 0), GpuId(5, 1))
FOREIGN = (GpuUser(17, 'python'),)
ALICE = (ActiveUser('alice', 'pts/3', 1.0),)
LONG = 300.0
NAMES = ('a', 'b', 'c')
NONE = frozenset()


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
        seen = tuple(WatchedGpu(gpu, users=FOREIGN if gpu in self.busy else ()) for gpu in there)
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
        self.poll(step)

    def end(self, name: str, time: float) -> None:
        for life in self.living():
            if life.program.name == name:
                life.gone = time
                self.state = with_end(self.state, name, time)
        self.due.pop(name, None)

    def poll(self, step: Step) -> None:
        programs = self.configurations[step.configuration]
        observation = step.observation()
        before, text = self.state, repr(self.state)
        self.state, actions = decide(programs, before, observation, self.now)
        self.looks.append(Look(self.now, observation, programs, before, text, self.state, actions))
        for life in self.living():
            if life.asked is None:
                life.program = as_configured(life.program, programs) or life.program
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


def as_configured(program: Program, programs: Sequence[Program]) -> Program | None:
    """Return what programs have of one that is started in the same way."""

    def how_it_starts(one: Program) -> tuple[object, ...]:
        return one.name, one.gpus, one.command, one.folder, one.log, one.environment, one.user, one.use_uuids

    return next((other for other in programs if how_it_starts(other) == how_it_starts(program)), None)


class Memory(NamedTuple):
    """What has to be remembered of a program's ends."""

    row: int = 0
    """Ends that nobody asked for, in a row, all of them failures."""
    worked: bool = True
    """Whether the last of them came after a long run, if there was one."""
    not_before: float = 0.0


def memory(program: Program, time: float, world: World) -> Memory:
    """Return what the ends of a program before a look mean for it, added up from its lives in the plainest way."""
    row, worked, ended, since = 0, True, None, 0.0
    for life in [life for life in world.lives if life.program.name == program.name and life.start < time]:
        if not was_configured(life.program, since, life.start, world):
            row, worked, ended = 0, True, None
        since = life.start
        if not life.was_gone(time):
            break
        lasted = life.gone - life.start >= LONG
        row = (0 if lasted else row) + (life.asked is None)
        if lasted or life.asked is None:
            worked = lasted
            ended = life.gone if life.asked is None else None
    if not was_configured(program, since, time, world):
        return Memory()
    configured = as_configured(program, next(look.programs for look in world.looks if look.time == time))
    rest = min(configured.restart_backoff * 2 ** max(row - 1, 0), LONG)
    return Memory(row, worked, 0.0 if ended is None else ended + rest)


def was_configured(program: Program, since: float, until: float, world: World) -> bool:
    """Tell whether every look in a time has found a program that is started in just this way."""
    return all(as_configured(program, look.programs) for look in world.looks if since <= look.time <= until)


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
    return program.gpus is None and is_idle_for(program, look, world) and memory(program, look.time, world).worked


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
    for crashing in (NONE, NONE, 'abc', 'a', 'b', 'abc')
    for pause in (10.0, 0.5, 1.0, 5.0, 20.0, 400.0)
    for obedience in (0.0, 0.5, 1.0)
]
PLACES = (
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
options = st.sampled_from(OPTIONS)
configurations = name_lists.flatmap(lambda names: st.tuples(*map(programs_named, names)))


def programs_named(name: str) -> st.SearchStrategy[Program]:
    places = st.sampled_from([*PLACES, *[None] * (10 if name == 'a' else 2)])
    drawn = st.tuples(places, options)
    return drawn.map(lambda two: Program(name, two[0], ('true',), '/', **two[1]))


@st.composite
def worlds(draw) -> World:
    first = draw(configurations)
    started_alike = st.tuples(*[options.map(lambda drawn, one=one: replace(one, **drawn)) for one in first])
    world = World(first, draw(configurations | started_alike))
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
