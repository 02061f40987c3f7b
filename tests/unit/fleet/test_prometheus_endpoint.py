"""Which Prometheus is meant, and with which credentials."""

from __future__ import annotations

import pytest

from gpu_tracker.errors import GpuTrackerError, ParameterError
from gpu_tracker.fleet.prometheus.client import Endpoint, endpoint

ACCEPTED = 'a URL such as http://localhost:9090 or https://prometheus.example.org/prefix'


@pytest.mark.parametrize(
    ('given', 'shown', 'authorization'),
    [
        ('http://localhost:9090', 'http://localhost:9090', None),
        ('http://localhost:9090/', 'http://localhost:9090', None),
        ('https://monitor.example.org/prometheus/', 'https://monitor.example.org/prometheus', None),
        ('http://[::1]:9090', 'http://[::1]:9090', None),
        ('https://alice:secret@localhost', 'https://localhost', 'Basic YWxpY2U6c2VjcmV0'),
        ('https://alice:p%40ss%3A@localhost', 'https://localhost', 'Basic YWxpY2U6cEBzczo='),
        ('https://alice@localhost', 'https://localhost', 'Basic YWxpY2U6'),
    ],
)
def test_a_url_is_understood(given, shown, authorization):
    assert endpoint(given) == Endpoint(shown, authorization, None)


@pytest.mark.parametrize(
    ('given', 'shown'),
    [
        ('', ''),
        ('localhost:9090', 'localhost:9090'),
        ('ftp://localhost', 'ftp://localhost'),
        ('http://', 'http://'),
        ('http://:9090', 'http://:9090'),
        ('http://localhost:0', 'http://localhost:0'),
        ('http://localhost:99999', 'http://localhost:99999'),
        ('http://localhost:http', 'http://localhost:http'),
        ('http://[::1', 'http://[::1'),
        ('http://localhost/?a=b', 'http://localhost/?a=b'),
        ('http://localhost/#graph', 'http://localhost/#graph'),
        ('http://local host', 'http://local host'),
        ('http://localhost\n', 'http://localhost\n'),
        ('ftp://alice:secret@localhost', 'ftp://...@localhost'),
        ('http://alice:sec@ret@localhost:0', 'http://...@localhost:0'),
    ],
)
def test_what_is_no_url_is_refused_without_telling_a_password(given, shown):
    with pytest.raises(ParameterError) as caught:
        endpoint(given)
    assert str(caught.value) == f'--prometheus must be {ACCEPTED}, not {shown!r}'


def test_a_token_is_read_from_its_file(tmp_path):
    file = tmp_path / 'token'
    file.write_text('abc.def-123\n')
    file.chmod(0o600)
    assert endpoint('http://localhost', token_file=str(file)).authorization == 'Bearer abc.def-123'


def test_a_file_without_one_token_is_refused(tmp_path):
    file = tmp_path / 'token'
    file.write_text('two words')
    file.chmod(0o600)
    with pytest.raises(GpuTrackerError) as caught:
        endpoint('http://localhost', token_file=str(file))
    assert str(caught.value) == (
        f'--prometheus-token-file: the token in {file} must consist of ASCII letters, digits and '
        'punctuation, without spaces'
    )


def test_a_token_file_that_is_missing_is_told():
    with pytest.raises(GpuTrackerError) as caught:
        endpoint('http://localhost', token_file='/nowhere/token')  # noqa: S106 - a path
    assert str(caught.value) == '--prometheus-token-file: cannot read /nowhere/token: No such file or directory'


def test_a_token_and_a_password_do_not_go_together(tmp_path):
    with pytest.raises(ParameterError) as caught:
        endpoint('http://alice:secret@localhost', token_file=str(tmp_path / 'token'))
    assert str(caught.value) == (
        "--prometheus must be a URL without user and password if --prometheus-token-file is given, not 'http://...@localhost'"
    )


def test_an_authority_is_for_https_only():
    with pytest.raises(ParameterError) as caught:
        endpoint('http://localhost', ca_file='/nowhere/ca.pem')
    assert str(caught.value) == (
        "--prometheus must be an https URL if --prometheus-ca is given, not 'http://localhost'"
    )


def test_an_authority_that_is_none_is_told(tmp_path):
    file = tmp_path / 'ca.pem'
    file.write_text('no certificate')
    with pytest.raises(GpuTrackerError) as caught:
        endpoint('https://localhost', ca_file=str(file))
    assert str(caught.value) == f"--prometheus-ca: '{file}' must contain certificates in PEM form"
    with pytest.raises(GpuTrackerError) as caught:
        endpoint('https://localhost', ca_file='/nowhere/ca.pem')
    assert str(caught.value) == "--prometheus-ca: cannot read '/nowhere/ca.pem': No such file or directory"
