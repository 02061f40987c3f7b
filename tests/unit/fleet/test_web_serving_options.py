from __future__ import annotations

import re
import stat

import pytest

from gpu_tracker.cli import options, serving
from gpu_tracker.errors import GpuTrackerError, ParameterError
from gpu_tracker.installation import install_command

TEXT = f"""
Usage:
  program [options]

Options:
{serving.option_lines(1080)}"""


def access(*arguments: str):
    return serving.access(options.parse(TEXT, arguments), None, '--token-file')


def test_without_options_it_is_for_this_machine():
    found = access()
    assert [(one.host, one.port) for one in found.addresses] == [('127.0.0.1', 1080)]
    assert found.server_names == {'127.0.0.1'}


def test_names_are_separated_by_commas():
    assert access('--server-name=gpus.example, Node02').server_names == {'127.0.0.1', 'gpus.example', 'Node02'}


@pytest.mark.parametrize('names', ['', 'a,', 'a b', 'a:80', 'http://a', '*', '.a', 'ä'])
def test_what_is_no_name_is_refused(names):
    with pytest.raises(
        ParameterError, match=r'^--server-name must be names of hosts, separated by commas, without ports'
    ):
        access(f'--server-name={names}')


@pytest.mark.parametrize('port', ['', '-1', '65536', 'http', '1_0', '1.5'])
def test_what_is_no_port_is_refused(port):
    with pytest.raises(ParameterError, match=f'^--port must be a number from 0 to 65535, not {port!r}$'):
        access(f'--port={port}')


def test_an_empty_host_is_none():
    with pytest.raises(ParameterError, match=r"^--host must be a host name or an IP address of this machine, not ''$"):
        access('--host=')


@pytest.mark.parametrize('option', ['--tls-key', '--tls-client-ca'])
def test_options_of_tls_go_with_a_certificate(option):
    with pytest.raises(options.UsageError, match=f'^{option} needs --tls-cert$'):
        access(f'{option}=x.pem')


@pytest.mark.parametrize(
    ('arguments', 'text'),
    [
        (['--tls-cert='], "--tls-cert must be the path of a file with a certificate, not ''"),
        (['--tls-cert=a', '--tls-key='], "--tls-key must be the path of a file with a private key, not ''"),
        (['--tls-cert=a', '--tls-client-ca='], "--tls-client-ca must be the path of a file with certificates, not ''"),
    ],
)
def test_an_empty_path_is_none(arguments, text):
    with pytest.raises(ParameterError) as refusal:
        access(*arguments)
    assert str(refusal.value) == text


def test_without_a_file_there_is_no_secret(tmp_path):
    assert serving.token(None) is None
    assert serving.passwords(None) is None
    with pytest.raises(ParameterError, match=r"^--token-file must be the path of a file with a token, not ''$"):
        serving.token('')


def test_a_token_is_made_once_for_its_owner_alone(tmp_path):
    path = tmp_path / 'token'
    serving.token(path, '--make-token')
    made = path.read_text()
    assert re.fullmatch('[0-9a-f]{64}\n', made)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert serving.token(path, '--make-token').accepts(f'Bearer {made.strip()}'.encode())
    assert path.read_text() == made
    with pytest.raises(GpuTrackerError, match=r'^--make-token: cannot make /dev/null/token: Not a directory$'):
        serving.token('/dev/null/token', '--make-token')


def test_secrets_come_from_files(tmp_path):
    path = tmp_path / 'secret'
    path.touch(0o600)
    path.write_text('ann:0123456789abcdef\n')
    assert serving.token(path).accepts(b'Bearer ann:0123456789abcdef')
    assert serving.passwords(path).accepts(b'Basic YW5uOjAxMjM0NTY3ODlhYmNkZWY=')


def test_a_package_of_the_extra_that_is_missing_is_named_with_the_extra():
    with (
        pytest.raises(GpuTrackerError) as refusal,
        serving.extra_needed('agent'),
    ):
        raise ModuleNotFoundError("No module named 'starlette.routing'", name='starlette.routing')
    assert str(refusal.value) == (
        "'gpu-tracker agent' needs packages that are not installed (no module named 'starlette.routing'): "
        f'{install_command("fleet")}'
    )


def test_any_other_module_that_is_missing_is_an_error_of_ours():
    with pytest.raises(ModuleNotFoundError), serving.extra_needed('agent'):
        raise ModuleNotFoundError("No module named 'gpu_tracker.none'", name='gpu_tracker.none')
