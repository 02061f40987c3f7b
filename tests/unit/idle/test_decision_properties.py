"""What holds of every history of looks, judged by what was seen and done, never by the monitor's own memory."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given, settings

from gpu_tracker.idle.decision import Start, Stop, decide, stop_all
from gpu_tracker.idle.waiting import waiting
from support.idle.idle_history import (
    CALM,
    WHOLE,
    alive_after,
    as_configured,
    calm_worlds,
    cells,
    configurations,
    has_its_turn,
    idle_time,
    is_idle_for,
    memory,
    worlds,
)

SOME = settings(max_examples=30, deadline=None)
"""Of histories, which take 10 ms each."""


PROPERTIES = []
"""Functions that check a history and leave it as it is: a history takes longer to make than to check."""


def any_history(check):
    PROPERTIES.append(check)
    return check


@SOME
@given(world=worlds())
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
def never_are_two_programs_on_one_gpu(world):
    for number, life in enumerate(world.lives):
        for earlier in world.lives[:number]:
            assert not life.cells & earlier.cells or (earlier.gone is not None and earlier.gone <= life.start)


@any_history
def nothing_is_started_while_a_user_is_active(world):
    for look in world.looks:
        assert not look.observation.active or not any(isinstance(action, Start) for action in look.actions)


@any_history
def every_start_comes_after_the_idle_time_shown_by_every_look_in_between(world):
    for look in world.looks:
        for action in look.actions:
            if isinstance(action, Start):
                for seen in action.gpus:
                    assert idle_time(seen.gpu, look.time, world) >= action.program.idle_before_start


@any_history
def a_start_is_on_the_gpus_that_the_program_names_or_on_all(world):
    for look in world.looks:
        for action in look.actions:
            if isinstance(action, Start):
                shown = look.observation.gpus
                named = {gpu: seen for seen in shown for gpu in [seen.gpu]}
                own = action.program.gpus
                assert action.program in look.programs
                assert action.gpus == (shown if own is None else tuple(named[gpu] for gpu in own))


@any_history
def nobody_is_stopped_without_need(world):
    for look in world.looks:
        for life in world.lives:
            if life.asked == look.time and life.start < look.time and as_configured(life.program, look.programs):
                room = life.program.gpus is not None and any(program.gpus is None for program in look.programs)
                all_free = all(look.is_free(seen.gpu) for seen in look.observation.gpus)
                assert (room and all_free) or not all(look.is_free(gpu) for gpu in life.gpus)


@any_history
def no_restart_comes_before_the_rest_is_over(world):
    for life in world.lives:
        assert life.start >= memory(life.program, life.start, world).not_before


@any_history
def room_is_made_only_for_a_program_that_has_its_turn_and_need_not_rest(world):
    for look in world.looks:
        for life in world.lives:
            configured = as_configured(life.program, look.programs)
            if life.asked == look.time and configured and all(map(look.is_free, life.gpus)):
                assert any(
                    has_its_turn(program, look, world) and look.time >= memory(program, look.time, world).not_before
                    for program in look.programs
                )


@any_history
def no_other_is_started_while_a_program_for_all_has_its_turn(world):
    for look in world.looks:
        started = [action.program for action in look.actions if isinstance(action, Start)]
        if any(program.gpus is not None for program in started):
            settled = any(
                life.program.gpus is None and (life.asked is None or life.asked > look.time)
                for life in alive_after(look, world)
            )
            assert settled or not any(has_its_turn(program, look, world) for program in look.programs)


@any_history
def nothing_waits_that_could_be_started(world):
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
def a_look_leaves_nothing_to_do_that_a_second_decision_would_find(world):
    for look in world.looks:
        assert decide(look.programs, look.after, look.observation, look.time) == (look.after, ())
        for program in look.programs:
            told = waiting(program, look.programs, look.after, look.observation, look.time)
            run = look.after.runs.get(program.name)
            assert (told is None) == (run is not None and run.stopping is None)


@any_history
def decisions_change_nothing_that_they_are_given_and_come_out_the_same_again(world):
    for look in world.looks:
        assert repr(look.before) == look.before_as_text
        assert decide(look.programs, look.before, look.observation, look.time) == (look.after, look.actions)
        assert look.after.runs.keys() >= {action.program.name for action in look.actions if isinstance(action, Start)}


@settings(SOME, max_examples=100)
@given(world=worlds())
def test_each_property_holds_of_any_history(world):
    for check in PROPERTIES:
        check(world)


@SOME
@given(world=worlds())
def test_after_the_monitor_has_begun_to_end_everything_ends_and_nothing_is_started(world):
    running = {life.program.name for life in world.living() if life.asked is None}
    world.state, stops = stop_all(world.state, 'SIGTERM', world.now)
    assert {stop.name for stop in stops} == running
    for stop in stops:
        world.stop(stop, CALM)
    started = len(world.lives)
    for _ in range(3):
        world.live(CALM)
    assert len(world.lives) == started
    assert world.living() == []
    assert world.state.runs == {}


@SOME
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


@SOME
@given(world=calm_worlds())
def test_in_calm_a_program_for_all_runs_if_none_has_ever_failed(world):
    for_all = [program for program in world.looks[-1].programs if program.gpus is None]
    lives = [life for life in world.lives if as_configured(life.program, for_all)]
    if for_all and all(life.asked is not None or life.gone is None for life in lives):
        assert any(life.program in for_all for life in world.living())


@SOME
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

    @settings(max_examples=100, deadline=None, database=None, derandomize=True)
    @given(world=worlds())
    def visit(world) -> None:
        for life in world.lives:
            reached.add('for all' if life.program.gpus is None else 'for some')
            reached.add('on a part' if any(gpu.mig is not None for gpu in life.gpus) else 'on the whole')
            reached.add(f'{"ended" if life.asked is None else "stopped"}' if life.gone is not None else 'running')
            begun = next(look.programs for look in world.looks if look.time == life.start)
            reached.add('as begun' if life.program in begun else 'configured anew')
        for action in (action for look in world.looks for action in look.actions):
            reached.add('makes room' if action.reason.startswith('makes room') else 'another reason')
        for one, other in pairwise(world.lives):
            reached.add('again' if one.program == other.program and one.asked is None else 'another')
        reached.update('in a row' for rest in world.state.rests.values() if rest.failures > 1)

    visit()
    assert reached >= {'for all', 'for some', 'on a part', 'ended', 'stopped', 'makes room', 'again', 'in a row'}
    assert 'configured anew' in reached
