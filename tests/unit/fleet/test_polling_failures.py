"""Why a host could not be asked, in words."""

from __future__ import annotations

import errno
import socket
import ssl

import aiohttp
import pytest
from aiohttp.client_reqrep import ConnectionKey

from gpu_tracker.fleet.polling import failures

KEY = ConnectionKey('node02', 1080, False, True, None, None, None)


@pytest.mark.parametrize(
    ('error', 'expected'),
    [
        (OSError(errno.ECONNREFUSED, 'Connect call failed'), 'cannot connect: connection refused'),
        (OSError(errno.EHOSTUNREACH, 'Connect call failed'), 'cannot connect: no route to host'),
        (OSError(errno.ENETUNREACH, ''), 'cannot connect: network is unreachable'),
        (OSError(errno.EMFILE, ''), 'cannot connect: too many open files'),
        (OSError('Multiple exceptions: a, b'), 'cannot connect: none of its addresses can be reached'),
        (OSError(12345678, 'odd'), 'cannot connect: it cannot be reached'),
    ],
)
def test_connections(error: OSError, expected: str):
    failure = failures.of_connection(aiohttp.ClientConnectorError(KEY, error), over_tls=False)
    assert (str(failure), failure.for_nvgpu) == (expected, 'Host not available')


@pytest.mark.parametrize(
    ('error', 'expected'),
    [
        (socket.gaierror(socket.EAI_NONAME, 'Name or service not known'), 'no machine is known by this name'),
        (
            socket.gaierror(socket.EAI_AGAIN, 'Temporary failure in name resolution'),
            'the name could not be looked up: temporary failure in name resolution',
        ),
        (OSError(None, None), 'the name could not be looked up: no reason told'),
    ],
)
def test_names(error: OSError, expected: str):
    failure = failures.of_connection(aiohttp.ClientConnectorDNSError(KEY, error), over_tls=False)
    assert str(failure) == f'cannot connect: {expected}'


def test_tls():
    odd = ssl.SSLError(1, '[SSL] odd')
    failure = failures.of_connection(aiohttp.ClientConnectorSSLError(KEY, odd), over_tls=True)
    assert str(failure) == 'cannot connect: no TLS there (the connection ended)'
    ended = failures.of_connection(aiohttp.ServerDisconnectedError(), over_tls=True)
    assert str(ended) == 'the connection ended before the answer: it may want a client certificate'


def test_answers():
    assert str(failures.late(1.5, has_begun=False)) == 'no answer within 1.5 s'
    assert str(failures.late(2.0, has_begun=True)) == 'no whole answer within 2 s'
    assert failures.late(1.5, has_begun=True).for_nvgpu == 'Connection timeout'
    assert failures.bad_status(500, 'INTERNAL SERVER ERROR').for_nvgpu == 'Bad response (500: INTERNAL SERVER ERROR)'
    assert failures.bad_status(599, None).for_nvgpu == 'Bad response (599: )'
    assert failures.bad_status(500, 'a\x1b[31m\n').for_nvgpu == 'Bad response (500: a[31m)'
    no_report = failures.no_report('the answer is not JSON')
    assert str(no_report) == 'did not answer with a report: the answer is not JSON'
    assert no_report.for_nvgpu == 'Bad response (200: the answer is not JSON)'
