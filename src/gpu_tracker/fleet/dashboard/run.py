"""The dashboard, put together, and its settings."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from starlette.applications import Starlette

from gpu_tracker.fleet.dashboard.polled import PolledAnswers
from gpu_tracker.fleet.hosts.fleet import Fleet, History
from gpu_tracker.fleet.page.routes import page_routes
from gpu_tracker.fleet.polling.http_client import most_connections, too_few_for
from gpu_tracker.fleet.polling.poller import Poller, waiting_hosts
from gpu_tracker.fleet.program_answers import health
from gpu_tracker.fleet.prometheus.source import PrometheusSource
from gpu_tracker.fleet.web.listener import allow_many_files
from gpu_tracker.fleet.web.serve import serve
from gpu_tracker.gpus.command_lines import PROGRAM
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


def run(settings: Settings, access: Access, complain: Callable[[str], None]) -> None:
    """Serve until SIGTERM ends it.

    :param complain: Takes lines for people.
    :raises KeyboardInterrupt: SIGINT has ended it.
    :raises gpu_tracker.errors.GpuTrackerError: A port is taken, or a TLS file cannot be used.
    """
    if isinstance(settings, PolledHosts):
        watch = _watch(settings, complain)
        source, app = _polled(settings.cluster, watch, complain)
    else:
        watch = None
        source, app = _from_prometheus(settings)
    if watch is not None:
        watch.start()

    def stop() -> None:
        if watch is not None:
            watch.stop()
        source.fleet.close()

    serve(
        app,
        access,
        ready=lambda urls: complain(f'dashboard: serving {" and ".join(urls)}'),
        complain=complain,
        background=source.run,
        on_stop=stop,
    )
    # The driver is not closed: that may hang, and the kernel does it when the process ends.


def _watch(settings: PolledHosts, complain: Callable[[str], None]) -> Watch | None:
    """Return what reads this machine; None where it is none of the hosts."""
    if all(host.url is not None for host in settings.cluster.hosts):
        return None
    return Watch(Machine(complain), commands=settings.commands)


def _polled(cluster: Cluster, watch: Watch | None, complain: Callable[[str], None]) -> tuple[FleetSource, Starlette]:
    allow_many_files()
    few = too_few_for(len(cluster.hosts), most_connections())
    if few is not None:
        complain(few)
    fleet = Fleet(waiting_hosts(cluster), interval=cluster.interval, history=History(interval=cluster.interval))
    poller = Poller(cluster, fleet, watch=watch)
    return poller, application(poller, PolledAnswers(cluster, poller).routes())


def _from_prometheus(settings: Prometheus) -> tuple[FleetSource, Starlette]:
    source = PrometheusSource(settings.endpoint, interval=settings.interval, deadline=settings.deadline)
    return source, application(source)
