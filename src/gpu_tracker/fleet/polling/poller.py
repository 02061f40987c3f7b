"""Keeps a fleet up to date by asking its hosts."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

from gpu_tracker.fleet.config.cluster import tls_context
from gpu_tracker.fleet.hosts.host import HostState, Known, names
from gpu_tracker.fleet.hosts.nvgpu import NOT_AVAILABLE
from gpu_tracker.fleet.polling.agent import Agent
from gpu_tracker.fleet.polling.failures import AgentError, late, looking_up
from gpu_tracker.fleet.polling.http_client import LONGEST, BackOff, HttpClient, Progress
from gpu_tracker.fleet.polling.own_report import ThisMachine, not_yet

if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable, Mapping

    from gpu_tracker.fleet.config.cluster import Cluster, ConfiguredHost, TlsFiles
    from gpu_tracker.fleet.hosts.fleet import Fleet
    from gpu_tracker.fleet.hosts.history import Past
    from gpu_tracker.fleet.hosts.report import HostReport
    from gpu_tracker.gpus.latest_reading import Watch

    Contexts = Mapping[TlsFiles, ssl.SSLContext]


def tls_contexts(cluster: Cluster) -> Contexts:
    """Return the contexts of all TLS files of a cluster. Reading them may take long, beside an event loop in a thread.

    :raises gpu_tracker.fleet.config.cluster.ClusterError: A TLS file cannot be used.
    """
    wanted = dict.fromkeys(host.tls for host in cluster.hosts if host.url is not None and _is_https(host.url))
    return {files: tls_context(files) for files in wanted}


def waiting_hosts(cluster: Cluster) -> list[HostState]:
    """Return the hosts of a cluster as they are before anybody was asked: what a fleet begins with."""
    return [HostState(str(number), host.label, host.group, url=host.url) for number, host in enumerate(cluster.hosts)]


class _Asked:
    """A host, and how it is asked."""

    __slots__ = ('agent', 'back_off', 'host_id', 'hostname', 'name', 'place', 'progress', 'url')

    def __init__(self, host_id: str, host: ConfiguredHost, agent: Agent | None, back_off: BackOff) -> None:
        self.host_id = host_id
        self.url = host.url
        self.name = host.name
        self.place = host.place
        self.hostname: str | None = None
        """As it calls itself; None: it has not answered yet."""
        self.agent = agent
        """None: this machine."""
        self.back_off = back_off
        self.progress = Progress()


class Poller:
    """Asks all hosts of a cluster at once, in rounds; see :class:`gpu_tracker.fleet.hosts.fleet.FleetSource`.

    Whoever wants to know of other hosts, as the agent for its ``/cluster_status``, runs one in the background::

        cluster = read_cluster(config)                       # config/read.py
        fleet = Fleet(waiting_hosts(cluster), interval=cluster.interval)
        poller = Poller(cluster, fleet, watch=watch)
        ...  # await poller.run(), in a task that is cancelled in the end: serve(..., background=poller.run)
        for host in fleet.states():                          # in the order of the configuration
            error = poller.error_for_nvgpu(host.id)          # 'Connection timeout'; None where it has answered
            ...  # {'error': error}, or host.report in nvgpu's form

    A report is put into the fleet as it comes. A host that fails is down, and asked less and less often, up to every
    ``longest_pause`` seconds.

    :param fleet: Has the hosts of :func:`waiting_hosts`.
    :param watch: Looks at this machine; needed where the cluster has 'self'. Others start it.
    :param longest_pause: Seconds.
    :param contexts: Those of :func:`tls_contexts`; None: the files are read here.
    :raises gpu_tracker.fleet.config.cluster.ClusterError: A TLS file cannot be used.
    """

    def __init__(
        self,
        cluster: Cluster,
        fleet: Fleet,
        *,
        watch: Watch | None = None,
        longest_pause: float = LONGEST,
        clock: Callable[[], float] = time.monotonic,
        make_client: Callable[[], HttpClient] | None = None,
        contexts: Contexts | None = None,
    ) -> None:
        self.fleet = fleet
        self._longest_pause = longest_pause
        self._clock = clock
        self._make_client = make_client or (lambda: HttpClient(hosts=len(self._asked)))
        self._errors: dict[str, AgentError] = {}
        self._has_new_names = False
        self._next_id = len(cluster.hosts)
        self._take(cluster, [str(number) for number in range(self._next_id)], watch, contexts)

    def update(self, cluster: Cluster, watch: Watch | None, contexts: Contexts) -> None:
        """Ask the hosts of another cluster from the next round on; a host that was asked before keeps what is known.

        :param watch: As before.
        :param contexts: Those of :func:`tls_contexts` for this cluster.
        """
        known: dict[str | None, list[str]] = {}
        for asked in self._asked:
            known.setdefault(asked.url, []).append(asked.host_id)
        names = {asked.host_id: asked.hostname for asked in self._asked}
        ids = [known[host.url].pop(0) if known.get(host.url) else self._new_id() for host in cluster.hosts]
        self._take(cluster, ids, watch, contexts)
        states = []
        for asked, host in zip(self._asked, cluster.hosts, strict=True):
            asked.hostname = names.get(asked.host_id)
            state = self.fleet.state(asked.host_id) or HostState(asked.host_id, host.label, url=host.url)
            states.append(state._replace(name=host.name or asked.hostname or host.label, group=host.group))
        self.fleet.interval = cluster.interval
        self.fleet.replace(states)
        self._errors = {key: error for key, error in self._errors.items() if key in ids}
        self._has_new_names = True

    def _new_id(self) -> str:
        self._next_id += 1
        return str(self._next_id - 1)

    def _take(self, cluster: Cluster, ids: list[str], watch: Watch | None, contexts: Contexts | None) -> None:
        """Take the hosts of a cluster as those to ask."""
        if contexts is None:
            contexts = tls_contexts(cluster)
        if watch is None and any(host.url is None for host in cluster.hosts):
            raise ValueError("a cluster with 'self' needs a Watch of this machine")
        self._asked = [
            _Asked(key, host, _agent(host, contexts, self._clock), BackOff(cluster.interval, self._longest_pause))
            for key, host in zip(ids, cluster.hosts, strict=True)
        ]
        self._this_machine = None if watch is None else ThisMachine(watch)
        self.cluster = cluster

    async def run(self) -> None:
        """Ask the hosts at each point of a grid of time, until cancelled."""
        client, asked = self._make_client(), self._asked
        try:
            following = self._clock()
            while True:
                if asked is not self._asked:  # other hosts, of which there may be more
                    await client.close()
                    client, asked = self._make_client(), self._asked
                await self.round(client)
                self.fleet.end_round()
                now = self._clock()
                following = max(following + self.cluster.interval, now)
                await asyncio.sleep(following - now)
        finally:
            await client.close()

    async def past(self, host_id: str, seconds: float) -> Past | None:
        """Return what was in the last seconds; None: there is no such host, or nobody keeps the past."""
        history = self.fleet.history
        return None if history is None or self.fleet.state(host_id) is None else history.past(host_id, seconds)

    def error_for_nvgpu(self, host_id: str) -> str | None:
        """Return in the words of nvgpu's masters why a host has not answered when it was last asked."""
        error = self._errors.get(host_id)
        return None if error is None else error.for_nvgpu

    async def round(self, client: HttpClient) -> None:
        """Ask the hosts that are due, and return when all have answered or the deadline has passed."""
        begun = self._clock()
        due = [asked for asked in self._asked if asked.back_off.is_due(begun)]
        if not due:
            return
        tasks = {}
        try:
            for asked in due:
                tasks[asyncio.create_task(self._ask(asked, client, begun))] = asked
                await asyncio.sleep(0)  # thousands of requests at once would keep clients of this server waiting
            _, pending = await asyncio.wait(tasks, timeout=self.cluster.deadline)
            for task in pending:
                self._failed(tasks[task], self._late(tasks[task], client), begun)
            if self._has_new_names:
                self._has_new_names = False
                self._tell_names()
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _ask(self, asked: _Asked, client: HttpClient, begun: float) -> None:
        try:
            report = await self._report(asked, client)
        except AgentError as error:
            self._failed(asked, error, begun)
        except Exception as error:  # noqa: BLE001 - whatever one host does, the others are asked again
            self._failed(asked, AgentError(f'internal error: {type(error).__name__}', NOT_AVAILABLE), begun)
        else:
            self._succeeded(asked, report)

    async def _report(self, asked: _Asked, client: HttpClient) -> HostReport:
        if asked.agent is not None:
            asked.progress.has_begun = False
            return await asked.agent.ask(client, asked.progress)
        if self._this_machine is None:
            raise not_yet()
        return await self._this_machine.ask()

    def _late(self, asked: _Asked, client: HttpClient) -> AgentError:
        if asked.agent is None:
            return not_yet()
        if client.is_looking_up(asked.agent.host):
            return looking_up()
        return late(self.cluster.deadline, has_begun=asked.progress.has_begun)

    def _succeeded(self, asked: _Asked, report: HostReport) -> None:
        asked.back_off.succeeded()
        self._errors.pop(asked.host_id, None)
        state = self.fleet.state(asked.host_id)
        if state is None:
            return
        if asked.hostname != report.hostname:
            asked.hostname = report.hostname
            self._has_new_names = True  # which is looked at after the round: others may have the name as well
            state = state._replace(name=asked.name or report.hostname)
        self.fleet.put(state.reported(report, self.fleet.now()))

    def _tell_names(self) -> None:
        """Call each host so that it can be told from the others."""
        known = {asked.host_id: Known(asked.name or asked.hostname, asked.place) for asked in self._asked}
        for host_id, name in names(known).items():
            state = self.fleet.state(host_id)
            if state is not None and state.name != name:
                self.fleet.put(state._replace(name=name))

    def _failed(self, asked: _Asked, error: AgentError, begun: float) -> None:
        if asked.agent is not None:  # to ask this machine costs nothing
            asked.back_off.failed(begun)
        self._errors[asked.host_id] = error
        state = self.fleet.state(asked.host_id)
        if state is not None:
            self.fleet.put(state.failed(str(error)))


def _agent(host: ConfiguredHost, contexts: Contexts, clock: Callable[[], float]) -> Agent | None:
    """Return how a host is asked; None for this machine. Hosts with the same TLS files share a context."""
    if host.url is None:
        return None
    return Agent(host.url, host.token, contexts[host.tls] if _is_https(host.url) else None, clock)


def _is_https(url: str) -> bool:
    return url.startswith('https:')
