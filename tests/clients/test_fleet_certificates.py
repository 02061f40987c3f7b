"""Certificates of agents and of Prometheus: how they are configured, and which of them a dashboard trusts."""

from __future__ import annotations

import asyncio
import re
import ssl
import textwrap
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from gpu_tracker.fleet.config.cluster import Cluster, ClusterError, ConfiguredHost, TlsFiles
from gpu_tracker.fleet.config.read import read_cluster
from gpu_tracker.fleet.config.toml_file import read_toml_file
from gpu_tracker.fleet.hosts.fleet import Fleet
from gpu_tracker.fleet.hosts.history import History
from gpu_tracker.fleet.polling.http_client import HttpClient
from gpu_tracker.fleet.polling.poller import Poller, waiting_hosts
from gpu_tracker.fleet.prometheus.client import Client, endpoint
from gpu_tracker.fleet.prometheus.queries import PrometheusError
from support.fleet.fake_prometheus import fake_prometheus
from support.fleet.hostile_agents import Recorder, answer, report, serving, talks_at_once
from support.fleet.web_certificates import Authority, Certificates
from support.waiting import TIMEOUT

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

PAGE = (Path(__file__).parents[2] / 'docs' / 'fleet.rst').read_text()
TOML = [
    textwrap.dedent(block) for block in re.findall(r'^\.\. code-block:: toml\n((?:\n| {3}.*\n)+)', PAGE, re.MULTILINE)
]


def configured(folder: Path, text: str) -> Cluster:
    path = folder / 'cluster.toml'
    path.write_text(text)
    return read_cluster(str(path), {})


def refusal(folder: Path, text: str) -> str:
    with pytest.raises(ClusterError) as raised:
        configured(folder, text)
    return str(raised.value).removeprefix(f'{folder}/cluster.toml: ').replace(str(folder), 'FOLDER')


def test_certificates_of_a_configuration(tmp_path: Path):
    made = Certificates(tmp_path)
    cluster = configured(
        tmp_path,
        f"""
ca_file = '{made.authority.certificate.name}'
client_cert_file = '{made.client.name}'
client_key_file = '{made.client_key.name}'
hosts = ['https://node02', 'http://node03']
""",
    )
    expected = TlsFiles(str(made.authority.certificate), str(made.client), str(made.client_key))
    assert [host.tls for host in cluster.hosts] == [expected, TlsFiles()]
    assert refusal(tmp_path, f"client_cert_file = '{made.client.name}'") == (
        f"client_cert_file: 'FOLDER/{made.client.name}' must contain a certificate in PEM form, and its key"
    )
    assert refusal(
        tmp_path, f"client_cert_file = '{made.client.name}'\nclient_key_file = '{made.server_key.name}'"
    ) == (
        f"client_cert_file: 'FOLDER/{made.client.name}' must contain a certificate in PEM form, "
        f"and client_key_file 'FOLDER/{made.server_key.name}' its key"
    )


def test_the_second_documented_file_has_every_key(tmp_path):
    authority = Authority(tmp_path)
    authority.signed('client')
    (tmp_path / 'token').write_text('0123456789abcdef\n')
    (tmp_path / 'token').chmod(0o600)
    (tmp_path / 'token-of-speech').write_text('fedcba9876543210\n')
    (tmp_path / 'token-of-speech').chmod(0o600)
    cluster = read_toml_file(str(tmp_path / 'dashboard.toml'), TOML[1].encode())
    assert (cluster.interval, cluster.deadline) == (5.0, 1.5)
    assert [(host.url, host.name, host.group, host.token and host.token.text) for host in cluster.hosts] == [
        ('https://node02:1080', None, 'vision', '0123456789abcdef'),
        ('https://node03:1080', None, 'vision', '0123456789abcdef'),
        ('https://node04:1080', 'loud', 'speech', 'fedcba9876543210'),
        ('http://old:1080', None, 'speech', None),
    ]


def test_the_certificate_of_a_prometheus_is_checked(tmp_path):
    async def story():
        authority = Authority(tmp_path)
        certificate = authority.signed('server')
        tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        tls.load_cert_chain(certificate, certificate.with_suffix('.key'))
        async with fake_prometheus(tls) as prometheus:
            client = Client(endpoint(prometheus.url, ca_file=str(authority.certificate)))
            assert await client.now('up') == []
            await client.close()
            stranger = Client(endpoint(prometheus.url))
            with pytest.raises(PrometheusError) as caught:
                await stranger.now('up')
            await stranger.close()
            assert f'Prometheus at {prometheus.url}: its certificate is not trusted: ' in str(caught.value)

    asyncio.run(story())


@pytest.fixture(scope='module')
def made(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return Certificates(tmp_path_factory.mktemp('certificates'))


def server_context(certificate: Path, client_ca: Path | None = None) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, certificate.with_suffix('.key'))
    if client_ca is not None:
        context.verify_mode = ssl.CERT_REQUIRED
        context.load_verify_locations(client_ca)
    return context


async def polled(url: str, files: TlsFiles, rounds: int) -> tuple[str, str | None]:
    """Return the state and the error of a host after some rounds."""
    cluster = Cluster((ConfiguredHost(url, tls=files),), deadline=TIMEOUT)
    poller = Poller(cluster, Fleet(waiting_hosts(cluster), interval=cluster.interval, history=History()))
    client = HttpClient()
    try:
        for _ in range(rounds):
            await poller.round(client)
    finally:
        await client.close()
    (state,) = poller.fleet.states()
    return state.state, state.error


async def over_tls(context: ssl.SSLContext, files: TlsFiles, host: str = '127.0.0.1') -> tuple[str, str | None]:
    """Poll an agent that has TLS, and return its state and error."""
    async with serving(Recorder({'/api/v1/host': answer(report())}), tls=context) as url:
        return await polled(f'https://{host}:{url.rpartition(":")[2]}', files, 2)


async def over_plain_http(files: TlsFiles) -> tuple[str, str | None]:
    """Poll an agent that has no TLS, and return its state and error."""
    async with serving(talks_at_once) as url:
        return await polled(url.replace('http:', 'https:'), files, 1)


def run(test: Callable[[], Awaitable[None]]) -> None:
    asyncio.run(asyncio.wait_for(test(), TIMEOUT))


def test_tls(made: Certificates):
    async def test() -> None:
        trusting = TlsFiles(str(made.authority.certificate))
        server = server_context(made.server)
        assert await over_tls(server, trusting) == ('up', None)
        assert await over_tls(server, trusting, 'localhost') == ('up', None)
        down, error = await over_tls(server, TlsFiles())
        assert (down, error) == ('down', 'its certificate is not accepted: unable to get local issuer certificate')
        down, error = await over_plain_http(trusting)
        assert down == 'down'
        assert error in {  # as the version of OpenSSL has it
            'cannot connect: no TLS there (record layer failure)',
            'cannot connect: no TLS there (wrong version number)',
        }

    run(test)


def test_a_certificate_of_another_host_or_authority(tmp_path: Path, made: Certificates):
    async def test() -> None:
        other = made.authority.signed('elsewhere', 'subjectAltName=DNS:elsewhere')
        down, error = await over_tls(server_context(other), TlsFiles(str(made.authority.certificate)))
        assert (down, error) == (
            'down',
            "its certificate is not accepted: IP address mismatch, certificate is not valid for '127.0.0.1'",
        )
        stranger = Authority(tmp_path, 'a stranger')
        down, error = await over_tls(server_context(made.server), TlsFiles(str(stranger.certificate)))
        assert down == 'down'
        assert error is not None
        assert error.startswith('its certificate is not accepted: ')

    run(test)


def test_a_client_certificate(made: Certificates):
    async def test() -> None:
        authority = str(made.authority.certificate)
        server = server_context(made.server, made.authority.certificate)
        own = TlsFiles(authority, str(made.client), str(made.client_key))
        assert await over_tls(server, own) == ('up', None)
        down, error = await over_tls(server, TlsFiles(authority))
        assert (down, error) == ('down', 'the connection ended before the answer: it may want a client certificate')

    run(test)
