"""The agent, put together, and its settings."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, NamedTuple

from prometheus_client import ProcessCollector
from starlette.applications import Starlette

from gpu_tracker.background import in_thread
from gpu_tracker.fleet.agent.answers import Answers, ClusterStatus
from gpu_tracker.fleet.agent.job_metrics import JobCollector
from gpu_tracker.fleet.agent.local_host import Audience, LocalHost, LocalSource
from gpu_tracker.fleet.agent.metrics import HostCollector
from gpu_tracker.fleet.agent.probed import ProbedMetrics
from gpu_tracker.fleet.config.cluster import INTERVAL
from gpu_tracker.fleet.hosts.fleet import Fleet
from gpu_tracker.fleet.page.routes import page_routes
from gpu_tracker.fleet.web.gate import HEALTH
from gpu_tracker.fleet.web.serve import serve
from gpu_tracker.gpus.command_lines import PROGRAM
from gpu_tracker.gpus.inventory import Inventory
from gpu_tracker.gpus.latest_reading import Watch
from gpu_tracker.gpus.machine import Machine, host_name

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from gpu_tracker.fleet.agent.answers import OtherHosts
    from gpu_tracker.fleet.agent.job_watch import JobWatch
    from gpu_tracker.fleet.config.cluster import Cluster
    from gpu_tracker.fleet.web.access import Access


class Settings(NamedTuple):
    """Settings of an agent, checked."""

    cluster: Cluster
    """The hosts of ``/cluster_status``, in order; where there are none, there is no page either."""
    interval: float
    """Seconds between two looks at the GPUs."""
    export_processes: bool = False
    """Whether metrics tell the memory of each process."""
    export_users: bool = False
    """Whether metrics tell the names of users."""
    watches_activity: bool = False
    """Whether to read how busy the parts of GPUs are."""
    commands: str = PROGRAM
    """How much clients may know of command lines, see :func:`gpu_tracker.gpus.machine.snapshot`."""
    probes: tuple[str, ...] = ()
    """Names of resources whose metrics are wanted too; these tell of processes one by one."""
    jobs: str | None = None
    """A job's folder, or one with such folders in it; None: no jobs are reported."""


_FIRST_READING = 1.0
"""Seconds that the first clients wait at most for a driver that is slow to answer."""


def run(
    settings: Settings,
    access: Access,
    version: str,
    complain: Callable[[str], None],
    read: Callable[[], tuple[Settings, Access]],
) -> None:
    """Serve until SIGTERM ends it.

    :param version: Of gpu-tracker.
    :param complain: Takes lines for people.
    :param read: Reads again, for SIGHUP, whom to answer and the hosts of the cluster.
    :raises KeyboardInterrupt: SIGINT has ended it.
    :raises gpu_tracker.errors.GpuTrackerError: A port is taken, a TLS file of the cluster's cannot be used, or
        where claims are kept is no absolute path.
    """
    inventory = Inventory(report=complain, watches_errors=True, watches_activity=settings.watches_activity)
    machine = Machine(complain, inventory)
    watch = Watch(machine, settings.interval, commands=settings.commands)
    agent = _Agent(settings, watch, version, complain)

    async def reload() -> Access:
        new, new_access = await in_thread(read)
        await agent.update(new.cluster)
        return new_access

    watch.start()
    watch.wait_for_first(_FIRST_READING)
    serve(
        agent.app,
        access,
        ready=lambda urls: complain(f'agent: serving {" and ".join(urls)}'),
        complain=complain,
        background=agent.run,
        on_stop=agent.stop,
        reload=reload,
    )
    # The driver is not closed: that may hang, and the kernel does it when the process ends.


def _open_jobs(folder: str, complain: Callable[[str], None]) -> JobWatch:
    from gpu_tracker.fleet.agent.job_watch import JobWatch  # noqa: PLC0415 - not for Windows

    return JobWatch(folder, complain)


class _Agent:
    """What is served, and what goes on beside."""

    def __init__(self, settings: Settings, watch: Watch, version: str, complain: Callable[[str], None]) -> None:
        jobs = self._jobs = None if settings.jobs is None else _open_jobs(settings.jobs, complain)
        host = LocalHost(watch, version, jobs=None if jobs is None else jobs.seen)
        audience = Audience(watch, frozenset({HEALTH}))
        self._watch = watch
        self._complain = complain
        self._has_page = bool(settings.cluster.hosts)
        self._source = LocalSource(host, audience, settings.interval, complain)
        self._cluster = ClusterStatus(settings.cluster, host, others_of(settings.cluster))
        collector = HostCollector(
            host, version, export_processes=settings.export_processes, export_users=settings.export_users
        )
        self._probed = [
            ProbedMetrics(name, lambda: watch.newest, settings.interval, lambda text: complain(f'agent: {text}'))
            for name in settings.probes
        ]
        own = ProcessCollector(registry=None)  # process_*: what the agent itself uses
        of_jobs = [] if jobs is None else [JobCollector(jobs.seen, host_name())]
        routes = Answers(host, self._cluster, [collector, *self._probed, *of_jobs, own]).routes()
        if self._has_page:  # nvgpu's way to switch the page off
            routes += page_routes(self._source, host_name())
        app = Starlette(routes=routes)
        app.router.redirect_slashes = False  # a path with a slash too many is not there
        self.app = audience.around(app)

    async def update(self, cluster: Cluster) -> None:
        """Report the hosts of another cluster from now on."""
        self._cluster.update(cluster, await in_thread(lambda: others_of(cluster)))
        if bool(cluster.hosts) != self._has_page:
            self._complain('agent: whether there is a page changes with the next start')

    async def run(self) -> None:
        """Keep what is served up to date until it is cancelled."""
        for threaded in self._threaded():
            threaded.start()
        await asyncio.gather(self._source.run(), self._cluster.run())

    def stop(self) -> None:
        """Let pages that are open end."""
        self._watch.stop()
        for threaded in self._threaded():
            threaded.stop()
        self._source.fleet.close()

    def _threaded(self) -> Iterator[ProbedMetrics | JobWatch]:
        """Yield all that has a thread of its own."""
        yield from self._probed
        if self._jobs is not None:
            yield self._jobs


def others_of(cluster: Cluster) -> Callable[[], OtherHosts] | None:
    """Return what makes that which asks the hosts other than this one; None where there are none.

    :raises gpu_tracker.fleet.config.cluster.ClusterError: A TLS file of theirs cannot be used.
    """
    # Nobody sees how old these reports are, so that they must not get old.
    interval = min(cluster.interval, INTERVAL)
    others = cluster._replace(hosts=tuple(host for host in cluster.hosts if host.url is not None), interval=interval)
    if not others.hosts:
        return None
    # Here, since it imports aiohttp, which most agents do not need.
    from gpu_tracker.fleet.polling.poller import Poller, tls_contexts, waiting_hosts  # noqa: PLC0415

    contexts = tls_contexts(others)  # once: asking begins in the event loop, again and again
    return lambda: Poller(others, Fleet(waiting_hosts(others), interval=others.interval), contexts=contexts)
