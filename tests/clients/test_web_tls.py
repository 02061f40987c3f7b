"""Certificates: what is said of those that cannot be used, and what those that can keep out."""

from __future__ import annotations

import ssl
import subprocess
from typing import TYPE_CHECKING

import pytest

from gpu_tracker.fleet.config.secret_files import SecretFileError
from gpu_tracker.fleet.web.access import AccessError, TlsError, TlsFiles, check_access, server_context
from gpu_tracker.fleet.web.credentials import Token
from support.fleet.web_certificates import Authority, Certificates
from support.fleet.web_server import WebServer, curl
from support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture(scope='module')
def certificates(tmp_path_factory) -> Certificates:
    return Certificates(tmp_path_factory.mktemp('certificates'))


@pytest.fixture(scope='module')
def server(certificates) -> Iterator[WebServer]:
    options = [f'--tls-cert={certificates.server}', f'--tls-key={certificates.server_key}']
    with WebServer(*options) as server:
        yield server


@pytest.fixture(scope='module')
def server_for_certified(certificates) -> Iterator[WebServer]:
    options = [f'--tls-cert={certificates.server}', f'--tls-key={certificates.server_key}']
    with WebServer(*options, f'--tls-client-ca={certificates.authority.certificate}', '--host=0.0.0.0') as server:
        yield server


def asked(server: WebServer, *arguments: str, path: str = '/') -> str:
    """Return what curl prints."""
    return curl(*arguments, f'https://localhost:{server.port}{path}')


def refusal(certificate: Path, key: Path | None = None, client_ca: Path | None = None) -> str:
    """Return what is said of files."""
    given = [None if path is None else str(path) for path in (certificate, key, client_ca)]
    with pytest.raises(TlsError) as refusal:
        server_context(TlsFiles(*given))
    return str(refusal.value)


def test_files_that_belong_together_are_loaded(certificates, tmp_path):
    files = TlsFiles(str(certificates.server), str(certificates.server_key), str(certificates.authority.certificate))
    assert server_context(files).verify_mode == ssl.CERT_REQUIRED
    both = tmp_path / 'both.pem'
    both.write_text(certificates.server_key.read_text() + certificates.server.read_text())
    both.chmod(0o600)
    assert server_context(TlsFiles(str(both))).verify_mode == ssl.CERT_NONE


def test_no_old_protocol_and_no_renegotiation_is_offered(certificates):
    context = server_context(TlsFiles(str(certificates.server), str(certificates.server_key)))
    assert context.minimum_version == ssl.TLSVersion.TLSv1_2
    assert context.options & ssl.OP_NO_RENEGOTIATION


def test_files_that_are_missing_are_named_with_their_option(certificates, tmp_path):
    missing, cert, key = tmp_path / 'missing', certificates.server, certificates.server_key
    assert refusal(missing, key) == f'--tls-cert: cannot read {missing}: No such file or directory'
    assert refusal(cert, missing) == f'--tls-key: cannot read {missing}: No such file or directory'
    assert refusal(cert, key, missing) == f'--tls-client-ca: cannot read {missing}: No such file or directory'
    assert refusal(cert, tmp_path) == f'--tls-key: cannot read {tmp_path}: Is a directory'


def test_files_that_hold_something_else_are_named_with_what_they_should_hold(certificates, tmp_path):
    junk, cert, key = tmp_path / 'junk', certificates.server, certificates.server_key
    junk.write_bytes(b'\0\xff')
    assert refusal(key, cert) == f'--tls-cert: there is no certificate in PEM form in {key}'
    assert refusal(cert, junk) == f'--tls-key: there is no private key in PEM form in {junk}'
    assert refusal(cert) == f'--tls-cert: there is no private key in PEM form in {cert}'
    assert refusal(cert, key, junk) == f'--tls-client-ca: there is no certificate in PEM form in {junk}'


def test_damaged_files_are_named(certificates, tmp_path):
    cert, key = certificates.server, certificates.server_key
    damaged = tmp_path / 'damaged.pem'
    damaged.write_text('-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n')
    assert refusal(damaged, key).startswith(f'--tls-cert: cannot use {damaged} with the key in {key}: ')
    assert refusal(cert, key, damaged).startswith(f'--tls-client-ca: cannot use {damaged}: ')


def test_a_key_has_to_be_the_certificates_own_and_without_a_password(certificates, tmp_path):
    cert, key = certificates.server, certificates.client_key
    assert refusal(cert, key) == f'--tls-key: the key in {key} does not belong to the certificate {cert}'
    locked = tmp_path / 'locked.key'
    words = ['openssl', 'pkcs8', '-topk8', '-in', certificates.server_key, '-passout', 'pass:x', '-out', locked]
    subprocess.run(words, check=True, capture_output=True)
    assert refusal(cert, locked) == f'--tls-key: the key in {locked} has a password: use a key without a password'


@pytest.mark.parametrize('is_in_one_file', [True, False])
def test_a_key_that_others_may_read_is_refused(certificates, tmp_path, is_in_one_file):
    key = tmp_path / 'own.key'
    key.write_bytes(certificates.server.read_bytes() + certificates.server_key.read_bytes())
    key.chmod(0o640)
    files, option = ((key,), '--tls-cert') if is_in_one_file else ((certificates.server, key), '--tls-key')
    with pytest.raises(SecretFileError) as refused:
        server_context(TlsFiles(*map(str, files)))
    assert str(refused.value) == (f'{option}: other users can access {key} (mode 0640): run chmod 600')
    key.chmod(0o600)
    server_context(TlsFiles(*map(str, files)))


def test_a_certificate_that_no_client_would_accept_is_refused(certificates):
    old = certificates.authority.signed('old', startdate='20200101000000Z', enddate='20200201000000Z')
    assert refusal(old, old.with_suffix('.key')) == f'--tls-cert: clients would refuse {old}: certificate has expired'
    client = certificates.authority.signed('for-clients', 'extendedKeyUsage=clientAuth')
    assert refusal(client, client.with_suffix('.key')).startswith(f'--tls-cert: clients would refuse {client}: ')


def test_a_secret_over_tls_or_certificates_of_clients_open_more_than_loopback(certificates):
    files = TlsFiles(str(certificates.server), str(certificates.server_key))
    for access in (
        check_access(host='0.0.0.0', port=0, tls=files, credentials=Token('0123456789abcdef')),  # noqa: S104 - safe
        check_access(host='0.0.0.0', port=0, tls=files._replace(client_ca=str(certificates.authority.certificate))),  # noqa: S104 - safe
    ):
        assert access.scheme == 'https'
        assert access.warnings == ()
    with pytest.raises(AccessError, match=r'^--host: other machines can reach 0\.0\.0\.0\. The safe way'):
        check_access(host='0.0.0.0', port=0, tls=files)  # noqa: S104 - it is refused


def test_curl_is_served_over_tls(certificates, server):
    assert server.url == f'https://127.0.0.1:{server.port}'
    trusting = ['--cacert', str(certificates.authority.certificate)]
    assert asked(server, *trusting) == 'hello\n'
    assert asked(server, *trusting, '--tlsv1.2', '--tls-max', '1.2') == 'hello\n'
    assert asked(
        server, *trusting, '--tls-max', '1.1', '--ciphers', 'ALL:@SECLEVEL=0', '--write-out', '%{exitcode}'
    ) in {
        '35',
        '59',
    }
    assert asked(server, '--write-out', '%{exitcode}') == '60'  # without the authority: curl does not trust it


def test_plain_http_gets_nothing(server):
    with server.client() as client:
        client.get()
        assert b'HTTP' not in client.rest()
    assert len(server.log.splitlines()) == 1


def test_a_handshake_that_does_not_come_is_not_waited_for(certificates):
    options = [f'--tls-cert={certificates.server}', f'--tls-key={certificates.server_key}']
    with WebServer(*options, limits={'head_time': 0.3}) as server:
        for sent in (b'', b'\x16\x03\x01'):
            with server.client() as client:
                client.send(sent)
                assert client.rest() == b''


def test_who_only_shakes_hands_takes_a_place(certificates):
    options = [f'--tls-cert={certificates.server}', f'--tls-key={certificates.server_key}']
    with WebServer(*options, limits={'connections': 2}) as server, server.client() as first, server.client() as second:
        assert asked(server, *trusting_curl(certificates)) == 'hello\n'
        assert first.rest() == b''
        eventually(lambda: server.log.count('\n') == 2)
        assert server.log.endswith(
            'there are 2 connections: that of a client at 127.0.0.1, which waited longest, was closed\n'
        )
        second.socket.setblocking(False)
        with pytest.raises(BlockingIOError):
            second.socket.recv(1)


def test_only_clients_of_the_authority_are_served(certificates, server_for_certified, tmp_path):
    trusting = ['--cacert', str(certificates.authority.certificate)]
    own = ['--cert', str(certificates.client), '--key', str(certificates.client_key)]
    assert asked(server_for_certified, *trusting, *own) == 'hello\n'
    other = Authority(tmp_path).signed('mallory')
    for arguments in (trusting, [*trusting, '--cert', str(other), '--key', str(other.with_suffix('.key'))]):
        assert asked(server_for_certified, *arguments) == ''
        assert asked(server_for_certified, *arguments, path='/healthz') == ''
    assert asked(server_for_certified, *trusting, *own) == 'hello\n'
    assert len(server_for_certified.log.splitlines()) == 1


def test_a_stream_over_tls_whose_client_does_not_read_is_dropped(certificates):
    options = [f'--tls-cert={certificates.server}', f'--tls-key={certificates.server_key}']
    trusting = ssl.create_default_context(cafile=str(certificates.authority.certificate))
    with (
        WebServer(*options, limits={'unread_time': 0.3, 'connections': 1}) as server,
        server.client(tls=trusting) as client,
    ):
        client.get('/flood')
        assert client.socket.recv(1) == b'H'
        eventually(lambda: 'hello' in asked(server, *trusting_curl(certificates)))


def trusting_curl(certificates: Certificates) -> list[str]:
    return ['--cacert', str(certificates.authority.certificate)]


PATIENT = {'head_time': 1e6, 'idle_time': 1e6, 'stranger_idle_time': 1e6, 'unread_time': 1e6}
"""No client is given up before the end."""


def test_it_ends_in_time_with_handshakes_and_streams_over_tls(certificates):
    options = [f'--tls-cert={certificates.server}', f'--tls-key={certificates.server_key}']
    trusting = ssl.create_default_context(cafile=str(certificates.authority.certificate))
    with (
        WebServer(*options, limits=PATIENT) as server,
        server.client(),
        server.client(tls=trusting) as idle,
        server.client(tls=trusting) as reading,
        server.client(tls=trusting) as flooded,
    ):
        idle.get()
        idle.until(b'hello\n')
        reading.get('/events')
        reading.until(b'data: 1\n\n')
        flooded.get('/flood')
        flooded.until(b'\r\n\r\n')
        assert server.end() == 0
        assert server.log.count('\n') == 1
