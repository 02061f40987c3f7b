"""A server asked by curl: who may read what."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING

import pytest

from support.fleet.web_server import WebServer, curl
from support.programs import need_program
from support.tracked_program import as_root
from support.waiting import TIMEOUT, eventually

if TYPE_CHECKING:
    from collections.abc import Iterator

TOKEN = '0123456789abcdef'  # noqa: S105 - of tests


@pytest.fixture(scope='module')
def server() -> Iterator[WebServer]:
    with WebServer('--server-name=gpus.example') as server:
        yield server


@pytest.fixture(scope='module')
def server_with_token(tmp_path_factory) -> Iterator[WebServer]:
    path = tmp_path_factory.mktemp('secrets') / 'token'
    path.touch(0o600)
    path.write_text(f'{TOKEN}\n')
    with WebServer(f'--token-file={path}') as server:
        yield server


def status(*arguments: str) -> str:
    """Return the status of an answer."""
    return curl('--output', '/dev/null', '--write-out', '%{http_code}', *arguments)


def headers(url: str, *arguments: str) -> dict[str, str]:
    """Return the headers of an answer."""
    lines = curl('--dump-header', '-', '--output', '/dev/null', url, *arguments).splitlines()[1:-1]
    return {name.lower(): value for name, _, value in (line.partition(': ') for line in lines)}


def test_an_answer_comes_with_its_date_and_tells_nothing_of_the_server(server):
    assert curl(server.url) == 'hello\n'
    found = headers(server.url)
    assert found['date'].endswith(' GMT')
    assert found['content-security-policy'].startswith("default-src 'none'; ")
    assert found['x-content-type-options'] == 'nosniff'
    assert found['cache-control'] == 'no-store'
    assert 'server' not in found
    assert headers(f'{server.url}/cached')['cache-control'] == 'max-age=60'


def test_head_gets_the_head_alone(server):
    assert curl('--head', server.url).startswith('HTTP/1.1 200 OK\n')
    assert status('--head', f'{server.url}/error') == '500'


def test_other_methods_are_the_applications_affair(server):
    for method in ('POST', 'PUT', 'DELETE', 'OPTIONS', 'TRACE', 'PATCH', 'SEARCH'):
        assert status('--request', method, server.url) == '405'


def test_a_body_is_refused_whatever_it_is_sent_with(server, tmp_path):
    large = tmp_path / 'large'
    large.write_bytes(b'x' * 3_000_000)
    assert status('--data', 'x=1', server.url) == '413'
    assert status('--request', 'GET', '--data', 'x=1', server.url) == '413'
    assert status('--header', 'Transfer-Encoding: chunked', '--data', 'x', server.url) == '413'
    assert status('--header', 'Expect: 100-continue', '--data-binary', f'@{large}', server.url) == '413'


def test_long_targets_and_heads_are_refused(server):
    assert status(f'{server.url}/?{"x" * 4094}') == '200'
    assert status(f'{server.url}/?{"x" * 4096}') == '414'
    assert status(f'{server.url}/{"x" * 4096}') == '414'
    assert status('--header', f'Cookie: {"x" * 31_000}', server.url) == '200'
    assert status('--header', f'Cookie: {"x" * 33_000}', server.url) in {'400', '431'}


def test_only_its_own_names_and_addresses_are_answered(server):
    for host in ('localhost', socket.gethostname(), 'gpus.example:8443', 'GPUS.EXAMPLE.', '192.0.2.7', '[::1]:1'):
        assert status('--header', f'Host: {host}', server.url) == '200'
    for host in ('evil.example', 'localhost.evil.example', 'www.gpus.example'):
        assert status('--header', f'Host: {host}', server.url) == '421'
        assert status('--header', f'Host: {host}', f'{server.url}/healthz') == '421'
    assert status('--header', 'Host;', server.url) == '400'
    assert status('--http1.0', '--header', 'Host:', server.url) == '400'


def test_a_host_is_told_which_option_would_have_helped(server):
    assert curl('--header', 'Host: evil.example', server.url) == (
        'Misdirected Request: this server does not go by that name; its option --server-name adds names\n'
    )


def test_without_the_token_only_the_health_is_told(server_with_token):
    url = server_with_token.url
    assert status(f'{url}/healthz') == '200'
    for path in ('/', '/none', '/error', '/events', '/%68ealthz/..', '/healthz/', '/healthz%2f', '/healthz%00'):
        assert status('--path-as-is', f'{url}{path}') == '401'
    assert headers(url)['www-authenticate'] == 'Basic realm="gpu-tracker", charset="UTF-8"'


def test_the_token_opens_as_a_bearer_and_as_a_password(server_with_token):
    url = server_with_token.url
    assert curl('--oauth2-bearer', TOKEN, url) == 'hello\n'
    assert curl('--user', f'anybody:{TOKEN}', url) == 'hello\n'
    assert curl('--user', f':{TOKEN}', url) == 'hello\n'
    assert status('--oauth2-bearer', f'{TOKEN}x', url) == '401'
    assert status('--user', f'{TOKEN}:', url) == '401'
    assert status('--digest', '--user', f'anybody:{TOKEN}', url) == '401'
    assert status('--header', 'Authorization;', url) == '401'
    assert status('--header', f'Authorization: {TOKEN}', url) == '401'
    assert status('--header', f'Cookie: {TOKEN}', f'{url}/?token={TOKEN}') == '401'


def test_passwords_open_to_those_who_are_in_the_file(tmp_path):
    path = tmp_path / 'passwords'
    path.touch(0o600)
    path.write_text('# readers\nann:open sesame\nbjörn:grünes Gras\n')
    with WebServer(f'--password-file={path}') as server:
        assert curl('--user', 'ann:open sesame', server.url) == 'hello\n'
        assert curl('--user', 'björn:grünes Gras', server.url) == 'hello\n'
        assert status('--user', 'ann:grünes Gras', server.url) == '401'
        assert status('--oauth2-bearer', 'open sesame', server.url) == '401'
        assert status(server.url) == '401'
        assert status(f'{server.url}/healthz') == '200'
        eventually(lambda: server.log.count('\n') == 2)
        assert server.log.endswith('\ngpu-tracker: a client at 127.0.0.1 was refused: its secret is wrong\n')


HOSTS = '127.0.0.1 localhost\n'


@as_root
def test_a_machine_that_learns_its_full_name_late_answers_to_it(tmp_path):
    need_program('unshare', 'mount', 'hostname')
    hosts = tmp_path / 'hosts'
    hosts.write_text(HOSTS)
    (tmp_path / 'resolv.conf').write_text('nameserver 127.0.0.9\noptions timeout:1 attempts:1\n')
    script = 'hostname node02 && for f in hosts resolv.conf; do mount --bind "$0/$f" "/etc/$f"; done && exec "$@"'
    with WebServer(before=['unshare', '--mount', '--uts', 'sh', '-c', script, str(tmp_path)]) as server:
        asked = ['--header', 'Host: node02.cluster.example', server.url]
        assert status(*asked) == '421'
        hosts.write_text(f'{HOSTS}127.0.1.1 node02.cluster.example node02\n')
        eventually(lambda: status(*asked) == '200')


def test_an_error_is_told_to_the_servers_owner_in_one_line():
    with WebServer() as server:
        assert curl('--include', f'{server.url}/error').endswith('\n\nInternal Server Error\n')
        assert curl(f'{server.url}/silence') == 'Internal Server Error\n'
        eventually(lambda: server.log.count('\n') > 1)
        assert server.end() == 0
        assert server.log.splitlines()[1:] == [
            'gpu-tracker: internal error: GET /error: ValueError: a secret ?[31m of the program'
        ]


def test_an_answer_that_breaks_in_the_middle_does_not_look_whole(server):
    broken = ['--write-out', '%{exitcode}', f'{server.url}/half']
    assert curl(*broken) == 'half18'  # curl's code for a transfer that has ended too early


def test_nothing_that_clients_send_fills_the_log():
    with WebServer() as server:
        for _ in range(20):
            status(f'{server.url}/error')
        eventually(lambda: server.log.count('\n') == 1 + 5)
        assert server.end() == 0
        assert server.log.count('\n') == 1 + 5


def test_a_host_name_is_served_at_all_its_addresses():
    with WebServer('--host=localhost') as server:
        for url in server.urls:
            assert curl(url) == 'hello\n'
        assert {url.rpartition(':')[2] for url in server.urls} == {str(server.port)}


def test_ipv6_is_served():
    if not _has_ipv6():
        pytest.skip('this machine has no IPv6')
    with WebServer('--host=::1') as server:
        assert server.url == f'http://[::1]:{server.port}'
        assert curl(server.url) == 'hello\n'
        assert status('--header', 'Host: evil.example', server.url) == '421'


def test_what_others_can_reach_is_not_served_without_a_secret():
    with WebServer('--host=0.0.0.0', '--insecure') as server:
        assert server.url == f'http://0.0.0.0:{server.port}'
        assert curl(f'http://127.0.0.1:{server.port}') == 'hello\n'
        assert server.log.startswith('gpu-tracker: --insecure: everybody who can reach 0.0.0.0 can read')
    refused = WebServer('--host=0.0.0.0')
    try:
        assert refused.process.wait(TIMEOUT) == 125
        assert refused.log == (
            'gpu-tracker: --host: other machines can reach 0.0.0.0. The safe way is:\n'
            '  gpu-tracker agent --host=0.0.0.0 --make-token=token --tls-cert=tls.crt --tls-key=tls.key\n'
            'With --insecure everybody there can read which user runs what on which GPU\n'
        )
    finally:
        refused.__exit__()


def test_connections_are_kept_alive(server):
    shown = curl('--verbose', '--write-out', '%{num_connects}', f'{server.url}/cached', f'{server.url}/cached')
    assert shown == '10'  # one new connection for the first, none for the second
    eventually(lambda: status(server.url) == '200')


def _has_ipv6() -> bool:
    try:
        with socket.socket(socket.AF_INET6) as trial:
            trial.bind(('::1', 0))
    except OSError:
        return False
    return True
