"""Who opens a device all the time, seen by a fake, costs the monitor little."""

from __future__ import annotations

import asyncio
import itertools
import logging
import os

from gpu_tracker.idle.observing.device_events import DeviceChanges, DeviceListener


class Storm:
    """Opens without end."""

    def __init__(self) -> None:
        self.handles = os.pipe()
        os.write(self.handles[1], b'x')
        self.read = 0

    def fileno(self):
        return self.handles[0]

    def drain(self):
        self.read += 1
        return DeviceChanges(opened=frozenset({0}))

    def close(self):
        for handle in self.handles:
            os.close(handle)


def times_read(*, cost: float, loop_factory=None) -> int:
    """Return how often a storm is read in a hundred turns of the loop, where that takes so many seconds."""

    async def story() -> int:
        storm, changes = Storm(), []
        alarm = DeviceListener(
            '/dev',
            logging.getLogger('of a test'),
            open_events=lambda _: (storm, None),
            thread_time=itertools.count(0.0, cost).__next__,
        )
        alarm.listen(lambda *, opened: changes.append(opened))
        for _ in range(100):
            await asyncio.sleep(0)
        alarm.close()
        assert changes == [True] * storm.read
        return storm.read

    with asyncio.Runner(loop_factory=loop_factory) as runner:
        return runner.run(story())


def test_what_costs_nothing_is_heard_at_once():
    assert times_read(cost=0.0) in (99, 100)


def test_after_much_it_rests():
    assert times_read(cost=0.1) == 1


def test_after_many_small_ones_it_rests_as_well():
    assert 2 <= times_read(cost=0.0009) <= 20  # twice, unless this process itself has to wait in between


def test_after_very_much_it_rests_for_a_second():
    """Whoever opens a GPU meanwhile is heard no later."""
    rests = []

    class Loop(asyncio.SelectorEventLoop):
        def call_later(self, delay, *arguments, **options):
            rests.append(delay)
            return super().call_later(delay, *arguments, **options)

    assert times_read(cost=10.0, loop_factory=Loop) == 1
    assert rests == [1.0]


def test_a_new_terminal_is_looked_at_again_as_a_device_that_was_opened():
    async def story():
        storm, changes = Storm(), []
        storm.drain = lambda: DeviceChanges(terminal=True)
        alarm = DeviceListener('/dev', logging.getLogger('of a test'), open_events=lambda _: (storm, None))
        alarm.listen(lambda *, opened: changes.append(opened))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        alarm.close()
        return set(changes)

    assert asyncio.run(story()) == {True}
