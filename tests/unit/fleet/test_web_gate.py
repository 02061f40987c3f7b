from __future__ import annotations

import asyncio

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpu_tracker.fleet.web.capacity import Capacity, Limits
from gpu_tracker.fleet.web.credentials import Token
from gpu_tracker.fleet.web.gate import CLIENT, Gate
from gpu_tracker.fleet.web.host_names import HostNames

HOST = (b'host', b'localhost:1080')
BEARER = (b'authorization', b'Bearer 0123456789abcdef')


class Application:
    def __init__(self, *messages, error: Exception | None = None):
        self.messages = messages or (
            {'type': 'http.response.start', 'status': 200, 'headers': [(b'X-Own', b'1')]},
            {'type': 'http.response.body', 'body': b'yes'},
        )
        self.error = error
        self.asked = []

    async def __call__(self, scope, receive, send):
        self.asked.append(scope['path'])
        for message in self.messages:
            await send(message)
        if self.error:
            raise self.error


class FakeClient:
    """A connection of one request."""

    is_gone = False

    def __init__(self, *, may_read: bool = False):
        self.slot = Capacity(Limits(), [].append).take('192.0.2.7', 0.0)
        self.slot.may_read = may_read
        self.steps = []

    def begin_answer(self):
        self.steps.append('begin')

    def end_answer(self):
        self.steps.append('end')


def asked(
    application,
    *headers,
    path='/',
    query=b'',
    credentials=None,
    complaints=None,
    client=None,
    guesses=None,
    http_version='1.1',
    **limits,
):
    """Return what a gate sends for a request."""
    sent = []

    async def receive():
        raise AssertionError('nobody reads a body')

    async def send(message):
        sent.append(message)

    gate = Gate(
        application,
        names=HostNames(['localhost']),
        credentials=credentials,
        limits=Limits(**limits),
        complain=(complaints if complaints is not None else []).append,
        refused=(complaints if complaints is not None else []).append,
        guesses=guesses,
    )
    scope = {
        'type': 'http',
        'http_version': http_version,
        'method': 'GET',
        'path': path,
        'raw_path': path.encode(),
        'query_string': query,
        'headers': list(headers),
        'state': {CLIENT: client or FakeClient()},
    }
    asyncio.run(gate(scope, receive, send))
    return sent


def status(*headers, **options):
    application = Application()
    found = asked(application, *headers, **options)[0]['status']
    assert bool(application.asked) == (found == 200)
    return found


def headers_of(sent):
    return dict(sent[0]['headers'])


def test_the_health_needs_no_host_in_http_1_0():
    assert status(path='/healthz', http_version='1.0') == 200
    assert status(path='/healthz', http_version='1.1') == 400
    assert status(path='/', http_version='1.0') == 400
    assert status((b'host', b'evil.example'), path='/healthz', http_version='1.0') == 421


def test_every_answer_tells_browsers_to_trust_nobody_else():
    for sent in (asked(Application(), HOST), asked(Application())):
        headers = headers_of(sent)
        assert headers.pop(b'date').endswith(b' GMT')
        for name in (b'x-own', b'content-type', b'content-length', b'connection'):
            headers.pop(name, None)
        assert headers == {
            b'content-security-policy': (
                b"default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; font-src 'self'; "
                b"connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
            ),
            b'x-content-type-options': b'nosniff',
            b'x-frame-options': b'DENY',
            b'referrer-policy': b'no-referrer',
            b'cross-origin-opener-policy': b'same-origin',
            b'cross-origin-resource-policy': b'same-origin',
            b'cache-control': b'no-store',
        }


def test_a_header_of_the_application_stays():
    start = {'type': 'http.response.start', 'status': 200, 'headers': [(b'Cache-Control', b'max-age=60')]}
    sent = asked(Application(start, {'type': 'http.response.body'}), HOST)
    assert [value for name, value in sent[0]['headers'] if name == b'cache-control'] == [b'max-age=60']


@pytest.mark.parametrize(
    ('hosts', 'expected'),
    [
        ([b'localhost'], 200),
        ([b'[::1]:1080'], 200),
        ([], 400),
        ([b''], 400),
        ([b'localhost', b'localhost'], 400),
        ([b'evil.example'], 421),
        ([b'localhost evil.example'], 421),
    ],
)
def test_the_host_has_to_be_this_server(hosts, expected):
    assert status(*((b'host', host) for host in hosts)) == expected


def test_even_the_open_path_is_for_this_host_only():
    assert status((b'host', b'evil.example'), path='/healthz') == 421


@pytest.mark.parametrize(
    ('header', 'expected'),
    [
        ((b'content-length', b'0'), 200),
        ((b'content-length', b'00'), 200),
        ((b'content-length', b'1'), 413),
        ((b'content-length', b'99999999999999999999'), 413),
        ((b'content-length', b'x'), 413),
        ((b'transfer-encoding', b'chunked'), 413),
    ],
)
def test_nobody_sends_a_body(header, expected):
    assert status(HOST, header) == expected
    assert status(HOST, header, path='/healthz') == expected


def test_targets_and_heads_have_a_greatest_size():
    assert status(HOST, path='/12345', query=b'1234', target_size=10) == 200
    assert status(HOST, path='/12345', query=b'12345', target_size=10) == 414
    assert status(HOST, (b'cookie', b'1' * 82), head_size=106) == 200
    assert status(HOST, (b'cookie', b'1' * 83), head_size=106) == 431


@pytest.mark.parametrize('path', ['http://localhost/', '*', 'localhost:443', ''])
def test_a_target_is_a_path(path):
    assert status(HOST, path=path) == 400


def test_without_credentials_everybody_may_read():
    assert status(HOST) == 200


def test_with_credentials_only_the_open_path_is_for_everybody():
    token = Token('0123456789abcdef')
    assert status(HOST, path='/healthz', credentials=token) == 200
    assert status(HOST, BEARER, credentials=token) == 200
    for path in ('/', '/metrics', '/healthz/', '//healthz', '/healthz/../metrics', '/HEALTHZ', '/none'):
        assert status(HOST, path=path, credentials=token) == 401
        assert status(HOST, (b'authorization', b'Bearer wrong'), path=path, credentials=token) == 401
    assert status(HOST, BEARER, BEARER, credentials=token) == 401


def test_who_is_refused_learns_how_to_ask():
    sent = asked(Application(), HOST, credentials=Token('0123456789abcdef'))
    assert [value for name, value in sent[0]['headers'] if name == b'www-authenticate'] == [
        b'Bearer realm="gpu-tracker"',
        b'Basic realm="gpu-tracker", charset="UTF-8"',
    ]
    assert sent[1]['body'] == b'Unauthorized\n'


def test_who_tries_a_wrong_secret_is_told_of_and_who_tries_none_is_not():
    complaints = []
    options = {'credentials': Token('0123456789abcdef'), 'complaints': complaints}
    asked(Application(), HOST, **options)
    asked(Application(), HOST, BEARER, **options)
    assert complaints == []
    asked(Application(), HOST, (b'authorization', b'Bearer fedcba9876543210'), **options)
    assert complaints == ['a client at 192.0.2.7 was refused: its secret is wrong']


class Waited:
    """Guesses after which a client has to wait."""

    def __init__(self, *, has_room: bool = True) -> None:
        self._has_room = has_room
        self.events = []

    async def wait(self, address):
        self.events.append(f'waited at {address}')
        return self._has_room

    def was_right(self, address):
        self.events.append('right')

    def was_wrong(self, address):
        self.events.append('wrong')


WRONG = (b'authorization', b'Bearer fedcba9876543210')


@pytest.mark.parametrize(('secret', 'status', 'verdict'), [(BEARER, 200, 'right'), (WRONG, 401, 'wrong')])
def test_right_and_wrong_secrets_wait_alike(secret, status, verdict):
    waited = Waited()
    sent = asked(Application(), HOST, secret, credentials=Token('0123456789abcdef'), guesses=waited)
    assert sent[0]['status'] == status
    assert waited.events == ['waited at 192.0.2.7', verdict]


@pytest.mark.parametrize(
    ('replaced_by', 'status'), [(Token('0123456789abcdef'), 200), (Token('fedcba9876543210'), 401), (None, 200)]
)
def test_a_secret_is_compared_with_those_that_hold_when_the_wait_ends(replaced_by, status):
    class Reloaded(Waited):
        async def wait(self, address):
            gate.credentials = replaced_by
            return True

    sent = []

    async def send(message):
        sent.append(message)

    gate = Gate(
        Application(),
        names=HostNames(['localhost']),
        credentials=Token('0123456789abcdef') if status == 401 else Token('of before the reload'),
        limits=Limits(),
        complain=[].append,
        refused=[].append,
        guesses=Reloaded(),
    )
    scope = {'type': 'http', 'method': 'GET', 'path': '/', 'raw_path': b'/', 'query_string': b''}
    asyncio.run(gate(scope | {'headers': [HOST, BEARER], 'state': {CLIENT: FakeClient()}}, None, send))
    assert sent[0]['status'] == status


def test_too_many_that_wait_are_refused_before_their_secret_is_compared():
    waited = Waited(has_room=False)
    sent = asked(Application(), HOST, BEARER, credentials=Token('0123456789abcdef'), guesses=waited)
    assert sent[0]['status'] == 429
    assert headers_of(sent)[b'retry-after'] == b'1'
    assert waited.events == ['waited at 192.0.2.7']


def test_nobody_waits_who_shows_no_secret_or_has_shown_a_right_one_on_this_connection():
    waited = Waited()
    options = {'credentials': Token('0123456789abcdef'), 'guesses': waited}
    asked(Application(), HOST, **options)
    asked(Application(), HOST, path='/healthz', **options)
    assert waited.events == []
    client = FakeClient(may_read=True)
    asked(Application(), HOST, BEARER, client=client, **options)
    assert client.slot.may_read
    asked(Application(), HOST, WRONG, client=client, **options)
    assert not client.slot.may_read
    assert waited.events == ['right', 'wrong']


@pytest.mark.parametrize('credentials', [Token('0123456789abcdef'), None])
def test_a_connection_learns_whether_its_client_may_read(credentials):
    client = FakeClient()
    options = {'credentials': credentials, 'client': client}
    asked(Application(), HOST, path='/healthz', **options)
    asked(Application(), (b'host', b'evil.example'), BEARER, **options)
    if credentials:
        asked(Application(), HOST, **options)
    assert (client.slot.may_read, client.slot.waiting_since) == (False, 0.0)
    asked(Application(), HOST, BEARER, **options)
    assert (client.slot.may_read, client.slot.waiting_since) == (True, None)


@pytest.mark.parametrize('headers', [[HOST], []])
def test_a_connection_learns_when_an_answer_begins_and_ends(headers):
    client = FakeClient()
    asked(Application(), *headers, client=client)
    assert client.steps == ['begin', 'end']


def test_an_error_of_the_application_is_told_to_its_owner_and_not_to_the_client():
    complaints = []

    class FailingApplication(Application):
        async def __call__(self, scope, receive, send):
            raise ValueError('/home/ann/secret')

    sent = asked(FailingApplication(), HOST, path='/x', complaints=complaints)
    assert sent[0]['status'] == 500
    assert sent[1]['body'] == b'Internal Server Error\n'
    assert complaints == ['internal error: GET /x: ValueError: /home/ann/secret']


def test_an_error_after_an_answer_changes_nothing_for_the_client():
    complaints = []
    sent = asked(Application(error=ValueError('late')), HOST, complaints=complaints)
    assert [message['type'] for message in sent] == ['http.response.start', 'http.response.body']
    assert complaints == ['internal error: GET /: ValueError: late']


def test_an_application_that_says_nothing_has_failed():
    application = Application()
    application.messages = ()
    assert asked(application, HOST)[0]['status'] == 500


def test_who_sends_to_nobody_is_stopped_and_nothing_is_said():
    class Gone(FakeClient):
        def __init__(self):
            super().__init__()
            self.sent = []
            self.complaints = []

        @property
        def is_gone(self):
            return len(self.sent) == 3

        async def send(self, message):
            self.sent.append(message)

        async def endless(self, scope, receive, send):
            await send({'type': 'http.response.start', 'status': 200, 'headers': []})
            while True:
                await send({'type': 'http.response.body', 'body': b'x', 'more_body': True})

        async def receive(self):
            return {'type': 'http.disconnect'}

    gone = Gone()
    gate = Gate(
        gone.endless,
        names=HostNames(['localhost']),
        credentials=None,
        limits=Limits(),
        complain=gone.complaints.append,
        refused=gone.complaints.append,
    )
    scope = {'type': 'http', 'method': 'GET', 'path': '/', 'raw_path': b'/', 'query_string': b'', 'headers': [HOST]}
    scope['state'] = {CLIENT: gone}
    asyncio.run(gate(scope, gone.receive, gone.send))
    assert len(gone.sent) == 3
    assert gone.steps == ['begin']
    assert gone.complaints == []


@settings(deadline=None, max_examples=50)
@given(
    st.lists(
        st.tuples(
            st.sampled_from([b'host', b'authorization', b'content-length', b'transfer-encoding', b'cookie']),
            st.binary(max_size=30),
        ),
        max_size=5,
    ),
    st.text(max_size=20),
)
def test_no_head_makes_it_fail(headers, path):
    sent = asked(Application(), *headers, path=path, credentials=Token('0123456789abcdef'))
    assert sent[0]['status'] in {400, 401, 413, 421} | ({200} if path == '/healthz' else set())
