"""Runs Debian's Prometheus on a free port, with a scratch folder for its data."""

from __future__ import annotations

import contextlib
import http.client
import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, TextIO
from urllib.parse import urlencode

import pytest
from prometheus_client.parser import text_string_to_metric_families

from support.cli_program import text_of
from support.waiting import TIMEOUT, eventually

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

DOCUMENTED = Path(__file__).parents[3] / 'docs' / 'prometheus'
"""The folder of the configurations that users copy."""

with_prometheus = pytest.mark.skipif(
    (shutil.which('prometheus') is None or shutil.which('promtool') is None),
    reason="needs prometheus and promtool, from Debian's package prometheus",
)

_ADDRESS = re.compile(r'msg="Listening on" address=127\.0\.0\.1:(\d+)')


class PrometheusServer:
    """A Prometheus that runs.

    :param port: Of 127.0.0.1.
    """

    def __init__(self, port: int) -> None:
        self.port = port
        self.url = f'http://127.0.0.1:{port}'

    def query(self, promql: str) -> list[dict]:
        """Return the result of an instant query."""
        status, answer = self.ask(promql)
        assert status == http.client.OK, answer
        return answer['data']['result']

    def ask(self, promql: str) -> tuple[int, dict]:
        """Return the HTTP status of an instant query, and all that was answered."""
        connection = http.client.HTTPConnection('127.0.0.1', self.port, timeout=TIMEOUT)
        with contextlib.closing(connection):
            connection.request('GET', f'/api/v1/query?{urlencode({"query": promql})}')
            response = connection.getresponse()
            return response.status, json.loads(response.read())


@contextlib.contextmanager
def prometheus(folder: Path, configuration: str, *options: str, port: int = 0) -> Iterator[PrometheusServer]:
    """Start Prometheus with a configuration, wait until it answers queries, and end it.

    :param folder: For its data, its configuration and its log; with what was there it goes on where it ended.
    :param port: 0: any that is free.
    """
    folder.mkdir(exist_ok=True)
    (folder / 'prometheus.yml').write_text(configuration)
    log = folder / 'log'
    with log.open('w') as output:
        words = [
            'prometheus',
            f'--config.file={folder / "prometheus.yml"}',
            f'--storage.tsdb.path={folder / "data"}',
            f'--web.listen-address=127.0.0.1:{port}',
            *options,
        ]
        process = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT, cwd=folder)
    try:

        def told() -> re.Match[str] | None:
            assert process.poll() is None, text_of(log)
            return _ADDRESS.search(text_of(log))

        yield _ready(PrometheusServer(port or int(eventually(told)[1])), process)
    finally:
        process.terminate()
        try:
            process.wait(timeout=TIMEOUT)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _ready(server: PrometheusServer, process: subprocess.Popen) -> PrometheusServer:
    def is_ready() -> bool:
        assert process.poll() is None
        try:
            return server.ask('vector(1)')[0] == http.client.OK
        except (ConnectionError, ValueError):  # it does not listen yet, or says in words that it is not ready
            return False

    eventually(is_ready)
    return server


def promtool(
    *words: str, folder: Path = DOCUMENTED, stdin: int | TextIO = subprocess.DEVNULL
) -> subprocess.CompletedProcess[str]:
    """Run promtool; all that it says is its standard output."""
    return subprocess.run(
        ['promtool', *words],
        check=False,
        stdin=stdin,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=TIMEOUT,
        cwd=folder,
    )


def backfill(folder: Path, exposition: str, *, labels: dict[str, str], moments: Sequence[float]) -> None:
    """Write metrics into a data folder as if they had been scraped, and found up, at these moments.

    :param exposition: In Prometheus's text format.
    :param labels: Of the target.
    """
    families = {'up': [('up', {}, 1.0)]}
    for family in text_string_to_metric_families(exposition):
        for name, own, value, *_ in family.samples:
            families.setdefault(name, []).append((name, own, value))
    lines = []
    for name, samples in families.items():
        lines.append(f'# TYPE {name} gauge')
        for _, own, value in samples:
            series = ','.join(f'{key}={json.dumps(text, ensure_ascii=False)}' for key, text in (labels | own).items())
            lines += [f'{name}{{{series}}} {value} {moment:.3f}' for moment in moments]
    folder.mkdir(exist_ok=True)
    text = folder / 'backfill.txt'
    text.write_text('\n'.join([*lines, '# EOF', '']))
    written = promtool('tsdb', 'create-blocks-from', 'openmetrics', str(text), str(folder / 'data'))
    assert written.returncode == 0, written.stdout
