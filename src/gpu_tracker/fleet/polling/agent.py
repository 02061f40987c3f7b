"""One host that is polled over HTTP: an agent of gpu-tracker, or one of nvgpu."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from yarl import URL

from gpu_tracker.fleet.hosts.nvgpu import NVGPU, parse_nvgpu_report
from gpu_tracker.fleet.hosts.report import ReportError, parse_report
from gpu_tracker.fleet.polling.failures import AgentError, bad_status, no_report

if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable

    from gpu_tracker.fleet.config.cluster import Token
    from gpu_tracker.fleet.hosts.report import HostReport
    from gpu_tracker.fleet.polling.http_client import HttpClient, Progress

_OK = 200
_NOT_FOUND = 404
_ASKS_FOR_OURS = 60.0
"""Seconds after which a host that has answered in nvgpu's form is asked for ours again: it may have been updated."""


class Agent:
    """Knows which form a host has answered in, and asks for that.

    :param url: Scheme, host and port.
    :param tls: None where the URL is http.
    :param clock: Returns monotonic seconds.
    """

    def __init__(
        self,
        url: str,
        token: Token | None = None,
        tls: ssl.SSLContext | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._ours = URL(f'{url}/api/v1/host')
        self._nvgpus = URL(f'{url}/gpu_status')
        self.host = self._ours.raw_host or ''
        """The name that is looked up, or an address."""
        self._headers = {} if token is None else {'Authorization': f'Bearer {token.text}'}
        self._tls = tls
        self._clock = clock
        self._asked_for_ours: float | None = None
        """When, in vain, of a host that has answered in nvgpu's form; None of another."""

    async def ask(self, client: HttpClient, progress: Progress) -> HostReport:
        """Return what the host reports.

        :raises AgentError: It does not.
        """
        report = None
        if self._asked_for_ours is not None and self._clock() < self._asked_for_ours + _ASKS_FOR_OURS:
            report = await self._ask_in_nvgpus_form(client, progress)
            if report.agent == NVGPU:
                return report
            # An agent of ours has taken its place. In nvgpu's form it tells less.
        answer = await client.get(self._ours, self._headers, self._tls, progress)
        if answer.status == _OK:
            self._asked_for_ours = None
            return _read(_parse, answer.body)
        if answer.status != _NOT_FOUND:
            raise bad_status(answer.status, answer.reason)
        report = report or await self._ask_in_nvgpus_form(client, progress)
        self._asked_for_ours = self._clock()
        return report

    async def _ask_in_nvgpus_form(self, client: HttpClient, progress: Progress) -> HostReport:
        try:
            answer = await client.get(self._nvgpus, self._headers, self._tls, progress)
            if answer.status != _OK:
                raise bad_status(answer.status, answer.reason)
            return _read(parse_nvgpu_report, answer.body)
        except AgentError:
            self._asked_for_ours = None  # another agent may run there by now
            raise


def _parse(body: bytes) -> HostReport:
    """Read an answer to ``/api/v1/host``, which some programs give in nvgpu's form."""
    is_nvgpus = b'"is_available"' in body and b'"status"' not in body  # no text has these quotation marks unescaped
    return parse_nvgpu_report(body) if is_nvgpus else parse_report(body)


def _read(parse: Callable[[bytes], HostReport], body: bytes) -> HostReport:
    try:
        return parse(body)
    except ReportError as error:
        raise no_report(str(error)) from None
