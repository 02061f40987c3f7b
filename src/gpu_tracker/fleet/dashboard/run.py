"""The dashboard, put together, and its settings."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from starlette.applications import Starlette

from gpu_tracker.background import in_thread
from gpu_tracker.fleet.dashboard.polled import PolledAnswers
from gpu_tracker.fleet.hosts.fleet import Fleet
from gpu_tracker.fleet.hosts.history import History
from gpu_tracker.fleet.page.routes import page_routes
from gpu_tracker.fleet.polling.http_client import most_connections, too_few_for
from gpu_tracker.fleet.polling.poller import Poller, tls_contexts, waiting_hosts
from gpu_tracker.fleet.program_answers import health
from gpu_tracker.fleet.prometheus.source import PrometheusSource
from gpu_tracker.fleet.web.listener import allow_many_files
from gpu_tracker.fleet.web.serve import serve
from gpu_tracker.gpus.command_lines import PROGRAM
from gpu_tracker.gpus.inventory import Inventory
from gpu_tracker.gpus.latest_reading import Watch
from gpu_tracker.gpus.machine import Machine

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from starlette.routing import BaseRoute

    from gpu_tracker.fleet.config.cluster import Cluster
    from gpu_tracker.fleet.hosts.fleet import FleetSource
    from gpu_tracker.fleet.prometheus.client import Endpoint
    from gpu_tracker.fleet.web.access import Access


class PolledHosts(NamedTuple):
    """A dashboard that asks the agents itself."""

    cluster: Cluster
    commands: str = PROGRAM
    """How much clients may know of the command lines of this machine, where it is one of the hosts."""


class Prometheus(NamedTuple):
    """A dashboard that asks a Prometheus, which scrapes the agents."""

    endpoint: Endpoint
    interval: float
    """Seconds between two rounds of questions."""
    deadline: float
    """Seconds that a question may take."""


Settings = PolledHosts | Prometheus


_TITLE = 'GPU fleet'


def application(source: FleetSource, others: Sequence[BaseRoute] = ()) -> Starlette:
    """Return the application.

    :param others: Routes beside those of the page and ``/healthz``.
    """
    app = Starlette(routes=[health(), *others, *page_routes(source, _TITLE)])
    app.router.redirect_slashes = False  # a path with a slash too many is not there
    return app


def run(
    settings: Settings,
    access: Access,
    complain: Callable[[str], None],
    read: Callable[[], tuple[Settings, Access]],
) -> None:
    """Serve until SIGTERM ends it.

    :param complain: Takes lines for people.
    :param read: Reads again, for SIGHUP, whom to answer and whom to ask.
    :raises KeyboardInterrupt: SIGINT has ended it.
    :raises gpu_tracker.errors.GpuTrackerError: A port is taken, or a TLS file cannot be used.
    """
    dashboard = _Polled(settings, complain) if isinstance(settings, PolledHosts) else _FromPrometheus(settings)

    async def reload() -> Access:
        new, new_access = await in_thread(read)
        await dashboard.update(new)
        return new_access

    serve(
        dashboard.app,
        access,
        ready=lambda urls: complain(f'dashboard: serving {" and ".join(urls)}'),
        complain=complain,
        background=dashboard.source.run,
        on_stop=dashboard.stop,
        reload=reload,
    )
    # The driver is not closed: that may hang, and the kernel does it when the process ends.


class _Polled:
    """A dashboard that asks the agents itself, and this machine where that is one of the hosts."""

    def __init__(self, settings: PolledHosts, complain: Callable[[str], None]) -> None:
        cluster = settings.cluster
        self._complain = complain
        self._watch: Watch | None = None
        allow_many_files()
        self._warn(cluster)
        fleet = Fleet(waiting_hosts(cluster), interval=cluster.interval, history=History(interval=cluster.interval))
        self.source = Poller(cluster, fleet, watch=self._watch_for(settings))
        self.app = application(self.source, PolledAnswers(self.source).routes())

    async def update(self, settings: Settings) -> None:
        """Ask other hosts from now on."""
        if isinstance(settings, PolledHosts):
            cluster = settings.cluster
            contexts = await in_thread(lambda: tls_contexts(cluster))
            self.source.update(cluster, self._watch_for(settings), contexts)
            self._warn(cluster)

    def stop(self) -> None:
        """Let pages that are open end."""
        if self._watch is not None:
            self._watch.stop()
        self.source.fleet.close()

    def _watch_for(self, settings: PolledHosts) -> Watch | None:
        """Return what reads this machine, which goes on once it was needed; None where it is none of the hosts."""
        if all(host.url is not None for host in settings.cluster.hosts):
            return None
        if self._watch is None:
            machine = Machine(self._complain, Inventory(report=self._complain))
            self._watch = Watch(machine, commands=settings.commands)
            self._watch.start()
        return self._watch

    def _warn(self, cluster: Cluster) -> None:
        few = too_few_for(len(cluster.hosts), most_connections())
        if few is not None:
            self._complain(few)


class _FromPrometheus:
    """A dashboard that asks a Prometheus."""

    def __init__(self, settings: Prometheus) -> None:
        self.source = PrometheusSource(settings.endpoint, interval=settings.interval, deadline=settings.deadline)
        self.app = application(self.source)

    async def update(self, settings: Settings) -> None:
        """Ask with other secrets from now on."""
        if isinstance(settings, Prometheus):
            self.source.update(settings.endpoint)

    def stop(self) -> None:
        """Let pages that are open end."""
        self.source.fleet.close()
