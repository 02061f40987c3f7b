"""Keeps a fleet up to date with what Prometheus knows of it."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

from gpu_tracker.background import in_thread
from gpu_tracker.fleet.hosts.fleet import Fleet
from gpu_tracker.fleet.hosts.history import HALF_AN_HOUR
from gpu_tracker.fleet.prometheus import queries
from gpu_tracker.fleet.prometheus.agents import Roster, agents, reached
from gpu_tracker.fleet.prometheus.client import Client
from gpu_tracker.fleet.prometheus.gpus import Answers, fleet_moments, gpus_by_target, past_of, span_of
from gpu_tracker.fleet.prometheus.queries import PrometheusError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from gpu_tracker.fleet.hosts.history import Past
    from gpu_tracker.fleet.hosts.report import GpuReport
    from gpu_tracker.fleet.prometheus.agents import Target
    from gpu_tracker.fleet.prometheus.client import Endpoint
    from gpu_tracker.fleet.prometheus.queries import Queries, Sample

_VIEWERS_AT_A_TIME = 2
"""Whose wishes for the past are asked for at once: the figures of now come first."""


class PrometheusSource:
    """A fleet out of the targets of a Prometheus that scrapes agents of gpu-tracker.

    :param endpoint: The Prometheus, see :func:`gpu_tracker.fleet.prometheus.client.endpoint`.
    :param interval: Seconds between two rounds; one that takes long is followed by as long a pause.
    :param deadline: Seconds that a query may take.
    :param now: Returns seconds since 1970.
    :param clock: Returns monotonic seconds.
    """

    def __init__(
        self,
        endpoint: Endpoint,
        *,
        interval: float = 5.0,
        deadline: float = 10.0,
        now: Callable[[], float] = time.time,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.fleet = Fleet((), interval=interval, now=now)
        self._roster = Roster(self.fleet, endpoint.url, clock)
        self._client = Client(endpoint, deadline=deadline)
        self._deadline = deadline
        self._closing: set[asyncio.Task[None]] = set()
        self._clock = clock
        self._is_new = True
        self._has_recalled = False
        self._ahead = 0.0
        """Seconds that Prometheus's clock is ahead of this machine's."""
        self._viewers = asyncio.Semaphore(_VIEWERS_AT_A_TIME)

    def update(self, endpoint: Endpoint) -> None:
        """Ask with another secret, or trust other authorities, from the next question on; those under way go on."""
        closing = asyncio.get_running_loop().create_task(self._client.retire())
        self._closing.add(closing)
        closing.add_done_callback(self._closing.discard)
        self._client = Client(endpoint, deadline=self._deadline)

    async def run(self) -> None:
        """Keep the fleet up to date, until cancelled."""
        try:
            while True:
                began = self._clock()
                try:
                    await self._round()
                except PrometheusError as error:
                    self._roster.failed(str(error))
                    _end_if_cancelled()
                self.fleet.end_round()
                took = self._clock() - began
                await asyncio.sleep(max(self.fleet.interval - took, took))
        finally:
            for closing in self._closing:
                closing.cancel()
            await asyncio.gather(*self._closing, return_exceptions=True)
            await self._client.close()

    async def past(self, host_id: str, seconds: float) -> Past | None:
        """Return what was in the last ``seconds``, nothing where Prometheus does not report; None: no such host."""
        if self.fleet.state(host_id) is None:
            return None
        span = span_of(seconds, self.fleet.now() + self._ahead)
        target = self._roster.target(host_id)
        if target is None:  # the row that says why there is no host
            return past_of(span, (), ())
        times = {'start': span.start, 'end': span.end, 'step': span.step}
        async with self._viewers:
            try:
                busy = await self._client.over(queries.utilization_over(*target, span.step), **times)
                used = await self._client.over(queries.memory_over(*target, span.step), **times)
            except PrometheusError:
                return past_of(span, (), ())  # the rounds fail too, and say why
        return past_of(span, busy, used)

    async def _round(self) -> None:
        if self._is_new:
            self._roster.remember(agents(await self._client.now(queries.AGENTS_BEFORE), ()))
            self._is_new = False
        jobs = sorted(self._roster.jobs)
        answer = await self._client.now(queries.targets(jobs))
        if not answer:
            self._roster.failed(f'Prometheus at {self._client.url} has no target with an agent of gpu-tracker')
            return
        moment = answer[0].time
        self._ahead = moment - self.fleet.now()
        of_hosts = [queries.scraped(jobs), queries.spacing(jobs), queries.AGENTS]
        of_processes = [queries.PROCESSES_BY_PID, queries.PROCESSES_BY_USER]
        scraped, spacing, told, by_pid, by_user, *rest = await self._together(
            [*of_hosts, *of_processes, *_all_of(queries.NOW)], moment
        )
        answers = _answers(rest)._replace(by_pid=by_pid, by_user=by_user)
        targets = reached(answer, scraped, spacing)
        self._roster.update(targets, agents(told, answers.gpus), await _gpus(answers), moment, self._ahead)
        blank = self._roster.blank()
        if blank:
            before = queries.before(sorted({target.instance for target in blank}))
            answers = _answers(await self._together(_all_of(before), moment))
            self._roster.recall(agents((), answers.gpus), await _gpus(answers))
        if not self._has_recalled:
            self._has_recalled = True
            await self._recall_totals()

    async def _recall_totals(self) -> None:
        """Begin the history of the fleet with what Prometheus has kept of it, which is asked for once."""
        span = span_of(HALF_AN_HOUR, self.fleet.now() + self._ahead)
        times = {'start': span.start, 'end': span.end, 'step': span.step}
        try:
            busy = await self._client.over(queries.FLEET_UTILIZATION, **times)
            used = await self._client.over(queries.FLEET_MEMORY, **times)
        except PrometheusError:
            return  # the history begins now; where there is more to it the rounds fail too, and say why
        moments = fleet_moments(span, busy, used)
        self.fleet.totals_history.recall(moment._replace(time=moment.time - self._ahead) for moment in moments)

    async def _together(self, wanted: Sequence[str], moment: float) -> list[list[Sample]]:
        """Ask all at once, of the same moment; where one fails the others are given up.

        Not with a task group: one that fails while it is cancelled forgets that, before Python 3.13.
        """
        tasks = [asyncio.create_task(self._client.now(query, moment)) for query in wanted]

        def give_up(done: asyncio.Task[list[Sample]]) -> None:
            if not done.cancelled() and done.exception() is not None:
                for task in tasks:
                    task.cancel()

        for task in tasks:
            task.add_done_callback(give_up)
        await asyncio.gather(*tasks, return_exceptions=True)
        for task in tasks:
            if not task.cancelled():
                task.result()  # raises why it has failed
        return [task.result() for task in tasks]


def _end_if_cancelled() -> None:
    """Be cancelled all the same where a query has failed at that moment, and tells only of that."""
    task = asyncio.current_task()
    if task is not None and task.cancelling():
        raise asyncio.CancelledError


def _all_of(wanted: Queries) -> list[str]:
    return [wanted.gpus, wanted.statuses, *wanted.figures]


def _answers(samples: Sequence[Sequence[Sample]]) -> Answers:
    gpus, statuses, *figures = samples
    return Answers(gpus, statuses, figures)


async def _gpus(answers: Answers) -> Mapping[Target, tuple[GpuReport, ...]]:
    """Put the GPUs together in a thread, since thousands of them would keep the event loop from others."""
    return await in_thread(lambda: dict(gpus_by_target(answers)))
