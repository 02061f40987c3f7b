"""Options shared by the servers: addresses and access."""

from __future__ import annotations

import contextlib
import os
import re
from typing import TYPE_CHECKING

from gpu_tracker.cli import options, output
from gpu_tracker.cli.output import FAILURE, PatientOutput
from gpu_tracker.errors import GpuTrackerError, ParameterError
from gpu_tracker.gpus import command_lines

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from gpu_tracker.fleet.web.access import Access, TlsFiles
    from gpu_tracker.fleet.web.credentials import Credentials, Passwords, Token

MAKE_TOKEN = '--make-token'  # noqa: S105 - an option
LAST_WORDS = 1.5
"""Seconds for writing the last lines at the end."""

_NAME = re.compile(r'[A-Za-z0-9_-][A-Za-z0-9._-]*')
_EXTRA = frozenset({'aiohttp', 'h11', 'prometheus_client', 'starlette', 'uvicorn'})
"""Imported packages that the extra ``fleet`` installs."""

_LINES = """\
  --host=<host>         Listen on this name or address of this machine.
                        [default: 127.0.0.1]
  --port=<port>         Listen on this TCP port. With 0, the system chooses a free
                        port. [default: {port}]
  --tls-cert=<file>     Serve over TLS with the certificate in this PEM file. Put
                        the server's own certificate first, then intermediate
                        certificates.
  --tls-key=<file>      Use the private key in this PEM file for the certificate.
                        The key must have no password. Default: the file of
                        --tls-cert.
  --tls-client-ca=<file>  Accept only clients with a certificate from the
                        authorities in this PEM file. This option needs --tls-cert.
  --server-name=<names>  Accept requests for these host names too, separated by
                        commas. Requests for the machine's own names and addresses
                        are always accepted.
  --insecure            Allow other machines to connect without TLS or a secret.
                        These machines can then read which user runs what on which
                        GPU.
"""

COMMANDS_LINES = """\
  --commands=<what>     Show this part of command lines: program (only the names of
                        the program and its script), full (also arguments, which may
                        contain passwords) or none. Default: program.
"""


def option_lines(port: int) -> str:
    """Return the docopt lines of the shared options, the last with its line end, for a command's text.

    :param port: The default of ``--port``.
    """
    return _LINES.format(port=port)


def access(
    values: Mapping[str, str | bool | list[str] | None],
    credentials: Credentials | None,
    credentials_option: str,
) -> Access:
    """Return the checked values of the shared options.

    :param credentials: From :func:`token` or :func:`passwords`; None where the option is not given.
    :param credentials_option: The command's option for them, for what is said to the user.
    :raises ParameterError: An option's value cannot be used, or one is missing that goes with another.
    :raises TlsError: A certificate or key cannot be used.
    :raises AccessError: Other machines could read without TLS or a secret.
    """
    from gpu_tracker.fleet.web.access import check_access  # noqa: PLC0415 - not where only help is wanted

    return check_access(
        host=options.host(str(values['--host'])),
        port=options.port(str(values['--port'])),
        credentials=credentials,
        credentials_option=credentials_option,
        tls=_tls_files(values),
        server_names=_names(values['--server-name']),
        insecure=bool(values['--insecure']),
    )


def token(path: object, option: str = '--token-file') -> Token | None:
    """Return the token in the file, which --make-token creates; None if ``path`` is None."""
    from gpu_tracker.fleet.config import secret_files  # noqa: PLC0415 - as above
    from gpu_tracker.fleet.web import credentials  # noqa: PLC0415 - as above

    if path is None:
        return None
    file = _path(option, path, 'a token')
    if option == MAKE_TOKEN:
        secret_files.make_token(file, option)
    return credentials.Token(secret_files.read_token(file, option))


def passwords(path: object, option: str = '--password-file') -> Passwords | None:
    """Return the passwords in the file of the option; None if ``path`` is None."""
    from gpu_tracker.fleet.config import secret_files  # noqa: PLC0415 - as above
    from gpu_tracker.fleet.web import credentials  # noqa: PLC0415 - as above

    if path is None:
        return None
    return credentials.Passwords(secret_files.read_passwords(_path(option, path, 'passwords'), option))


def commands(values: Mapping[str, str | bool | list[str] | None]) -> str:
    """Return the part of command lines shown to clients.

    :raises ParameterError: The value is unknown.
    """
    given = values['--commands']
    if given is None:
        return command_lines.PROGRAM
    accepted = (command_lines.NONE, command_lines.PROGRAM, command_lines.FULL)
    if given not in accepted:
        raise ParameterError('--commands', given, 'none, program or full')
    return str(given)


def served(serve: Callable[[Callable[[str], None]], None], access: Access) -> int:
    """Serve, and return the exit code. A blocked standard error does not block it.

    :param serve: Serves until a signal; gets what takes its lines for people.
    """
    complain = PatientOutput(output.complain)
    for warning in access.warnings:
        complain(warning)
    try:
        serve(complain)
    except GpuTrackerError as error:
        complain(str(error))
        return FAILURE
    finally:
        complain.flush(LAST_WORDS)
    return 0


@contextlib.contextmanager
def extra_needed(command: str) -> Iterator[None]:
    """Report how to install the extra ``fleet``, if an import in the block fails."""
    try:
        yield
    except ModuleNotFoundError as error:
        if (error.name or '').partition('.')[0] not in _EXTRA:
            raise
        from gpu_tracker.installation import install_command  # noqa: PLC0415 - as above

        raise GpuTrackerError(
            f"'gpu-tracker {command}' needs packages that are not installed (no module named {error.name!r}): "
            f'{install_command("fleet")}'
        ) from None


def _tls_files(values: Mapping[str, str | bool | list[str] | None]) -> TlsFiles | None:
    from gpu_tracker.fleet.web.access import TlsFiles  # noqa: PLC0415 - as above

    certificate, key, client_ca = (values[option] for option in ('--tls-cert', '--tls-key', '--tls-client-ca'))
    if certificate is None:
        for option, given in (('--tls-key', key), ('--tls-client-ca', client_ca)):
            if given is not None:
                raise options.UsageError(f'{option} needs --tls-cert')
        return None
    return TlsFiles(
        _path('--tls-cert', certificate, 'a certificate'),
        None if key is None else _path('--tls-key', key, 'a private key'),
        None if client_ca is None else _path('--tls-client-ca', client_ca, 'certificates'),
    )


def _path(option: str, given: object, content: str) -> str:
    if not given:
        raise ParameterError(option, given, f'the path of a file with {content}')
    return os.path.expanduser(str(given))


def _names(given: object) -> list[str]:
    if given is None:
        return []
    names = [name.strip() for name in str(given).split(',')]
    for name in names:
        if not _NAME.fullmatch(name):
            raise ParameterError('--server-name', name, 'names of hosts, separated by commas, without ports')
    return names
