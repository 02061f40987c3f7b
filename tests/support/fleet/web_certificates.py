"""Certificates for tests, made by openssl."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING

from support.programs import need_program

if TYPE_CHECKING:
    from pathlib import Path

_CURVE = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:P-256', '-nodes']
_USAGE = ['-addext', 'keyUsage=critical,keyCertSign,cRLSign']  # Python 3.13 and later insist on it
_AUTHORITY = """\
[ca]
default_ca = own
[own]
database = {folder}/index.txt
new_certs_dir = {folder}
rand_serial = yes
default_md = sha256
policy = any
email_in_dn = no
unique_subject = no
[any]
commonName = supplied
"""


class Authority:
    """Signs certificates; everything lies in a folder."""

    def __init__(self, folder: Path, name: str = 'an authority') -> None:
        need_program('openssl')
        self.folder = folder
        self.certificate = folder / 'ca.pem'
        self._key = folder / 'ca.key'
        self._settings = folder / 'ca.conf'
        self._settings.write_text(_AUTHORITY.format(folder=folder))
        (folder / 'index.txt').touch()
        self._openssl('req', '-x509', *_CURVE, '-subj', f'/CN={name}', '-days', '30', *_USAGE, out='ca')

    def signed(self, name: str, extensions: str = 'subjectAltName=DNS:localhost,IP:127.0.0.1', **dates: str) -> Path:
        """Return the path of a new certificate; its key is beside it with the ending .key.

        :param dates: startdate and enddate as openssl has them, YYYYMMDDHHMMSSZ; by default it is good now.
        """
        request, certificate, more = (self.folder / f'{name}{end}' for end in ('.csr', '.pem', '.ext'))
        subprocess.run(
            [
                'openssl',
                'req',
                *_CURVE,
                '-subj',
                f'/CN={name}',
                '-keyout',
                self.folder / f'{name}.key',
                '-out',
                request,
            ],
            check=True,
            capture_output=True,
        )
        more.write_text(f'{extensions}\nauthorityKeyIdentifier=keyid\n')
        words = ['openssl', 'ca', '-batch', '-notext', '-config', self._settings, '-extfile', more]
        given = dates or {'days': '30'}
        words += [word for option, value in given.items() for word in (f'-{option}', value)]
        words += ['-cert', self.certificate, '-keyfile', self._key, '-in', request, '-out', certificate]
        subprocess.run(words, check=True, capture_output=True)
        return certificate

    def _openssl(self, *words: str, out: str) -> None:
        files = ['-keyout', self.folder / f'{out}.key', '-out', self.folder / f'{out}.pem']
        subprocess.run(['openssl', *words, *files], check=True, capture_output=True)


class Certificates:
    """Those that the tests need.

    :param folder: Where they lie.
    """

    def __init__(self, folder: Path) -> None:
        self.authority = Authority(folder)
        self.server = self.authority.signed('server')
        self.server_key = self.server.with_suffix('.key')
        self.client = self.authority.signed('client')
        self.client_key = self.client.with_suffix('.key')
