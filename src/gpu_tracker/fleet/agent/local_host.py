"""This machine as the agent reports it, from its newest reading; it is read less often while nobody asks."""

from __future__ import annotations

import asyncio
import json
import time
from typing import TYPE_CHECKING

from gpu_tracker.fleet.agent.job_ranks import running_jobs
from gpu_tracker.fleet.hosts.fleet import Fleet
from gpu_tracker.fleet.hosts.history import History
from gpu_tracker.fleet.hosts.host import HostState
from gpu_tracker.fleet.hosts.report import parse_report
from gpu_tracker.fleet.polling.own_report import OwnReport
from gpu_tracker.gpus.machine import Seen, host_name, snapshot

if TYPE_CHECKING:
    from collections.abc import Callable

    from starlette.types import ASGIApp, Receive, Scope, Send

    from gpu_tracker.fleet.agent.job_ranks import JobsSeen
    from gpu_tracker.fleet.hosts.history import Past
    from gpu_tracker.gpus.latest_reading import Reading, Watch

HOST_ID = '0'

_NOT_YET = 'the GPU driver has not answered yet'


class LocalHost:
    """This machine as the newest reading has it, and how old that is. It belongs to one thread.

    :param version: Of this agent.
    :param now: Seconds since 1970.
    :param jobs: Returns what is known of jobs, at once; None: no job folders are read.
    """

    def __init__(
        self,
        watch: Watch,
        version: str,
        now: Callable[[], float] = time.time,
        jobs: Callable[[], JobsSeen] | None = None,
    ) -> None:
        self._watch = watch
        self._version = version
        self._now = now
        self._jobs = jobs
        self._state = HostState(HOST_ID, host_name())
        self._report = OwnReport(watch, version)

    @property
    def reading(self) -> Reading | None:
        """The newest reading; None: the first reading goes on."""
        return self._watch.newest

    @property
    def time(self) -> float | None:
        """When the newest reading that has told the GPUs was taken, in seconds since 1970; None: there was none."""
        reading = self._watch.last_with_gpus
        taken = None if reading is None else reading.snapshot['time']
        return taken if isinstance(taken, float) else None

    def body(self) -> dict[str, object]:
        """Return what ``/api/v1/host`` answers."""
        reading = self._watch.newest
        of_jobs = {} if self._jobs is None else self._jobs().as_json()
        if reading is not None:
            return {**self._report.body(reading), **of_jobs}
        not_known = snapshot(Seen(self._now(), None, driver_problem=_NOT_YET))
        interval = self._watch.usual_interval
        known = {**not_known, 'age_seconds': None, 'interval_seconds': interval, 'agent_version': self._version}
        return {**known, **of_jobs}

    def state(self) -> HostState:
        """Return how this host is now; what was known last is kept while its driver does not work."""
        reading = self._watch.newest
        if reading is None:
            report = parse_report(json.dumps(self.body()).encode())
        elif self._jobs is None:
            report = self._report.of(reading)
        else:
            seen = self._jobs()
            report = self._report.of(reading)._replace(jobs=running_jobs(seen.ranks), jobs_problem=seen.problem)
        self._state = self._state.reported(report, self._now())
        return self._state


class Audience:
    """Passes requests on and lets the watch know of them, for as long as they last: a page stays open for hours.

    :param exempt: Paths that tell nothing of GPUs.
    """

    def __init__(self, watch: Watch, exempt: frozenset[str]) -> None:
        self._watch = watch
        self._exempt = exempt
        self._open = 0

    def around(self, app: ASGIApp) -> ASGIApp:
        """Return the application with this in front of it."""

        async def observed(scope: Scope, receive: Receive, send: Send) -> None:
            if scope['type'] != 'http' or scope['path'] in self._exempt:
                await app(scope, receive, send)
                return
            self._open += 1
            self._watch.latest()
            try:
                await app(scope, receive, send)
            finally:
                self._open -= 1

        return observed

    def ask_if_there(self) -> None:
        """Ask the watch on behalf of those whose requests are still being answered."""
        if self._open:
            self._watch.latest()


_LONGEST_PAUSE = 1.0
_SHORTEST_PAUSE = 0.1


class LocalSource:
    """Takes each new reading of this machine; see ``gpu_tracker.fleet.hosts.fleet.FleetSource``.

    :param interval: Seconds between two readings.
    :param complain: Takes lines for people.
    """

    def __init__(self, host: LocalHost, audience: Audience, interval: float, complain: Callable[[str], None]) -> None:
        self._host = host
        self._audience = audience
        self._complain = complain
        self._has_complained = False
        self._history = History(interval=interval)
        self._pause = min(_LONGEST_PAUSE, max(_SHORTEST_PAUSE, interval / 2))
        self.fleet = Fleet([host.state()], interval=interval, history=self._history)

    async def run(self) -> None:
        """Keep the fleet up to date until it is cancelled."""
        while True:
            self._audience.ask_if_there()
            try:
                self.fleet.put(self._host.state())  # the same reading too: until there is another, it is what is known
                self.fleet.end_round()
            except Exception as error:  # noqa: BLE001 - whatever one reading holds, the next is due
                if not self._has_complained:
                    self._has_complained = True
                    self._complain(f'a reading cannot be shown: {type(error).__name__}: {error}')
            await asyncio.sleep(self._pause)

    async def past(self, host_id: str, seconds: float) -> Past | None:
        """Return the last half hour; None: there is no such host."""
        return None if self.fleet.state(host_id) is None else self._history.past(host_id, seconds)
