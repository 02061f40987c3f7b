"""nvgpu's configuration: a Python file with ``AGENTS = ['self', 'http://node02:1080', ...]``, never executed."""

from __future__ import annotations

import ast
import warnings
from typing import TYPE_CHECKING

from gpu_tracker.fleet.config.cluster import (
    ACCEPTED,
    SELF,
    Cluster,
    ClusterError,
    ConfiguredHost,
    UrlError,
    agent_url,
    check_distinct,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

_AGENTS = 'AGENTS'
_EXAMPLE = "AGENTS = ['self', 'http://node02:1080']"
_DEFAULT = ConfiguredHost(None)
"""What nvgpu shows where no AGENTS are assigned."""
_LONGEST_SHOWN = 60


def read_nvgpu_file(path: str, content: bytes) -> Cluster:
    """Return the hosts that a file assigns to ``AGENTS``; what it assigns to other names is not looked at.

    Where it assigns nothing to ``AGENTS`` there is this machine only, and with an empty list nothing.

    :param path: Its name in errors.
    :raises ClusterError: It is no Python, or has something else than assignments of literals; the text names the line.
    """
    return _NvgpuFile(path, content).cluster()


class _NvgpuFile:
    def __init__(self, path: str, content: bytes) -> None:
        self._path = path
        self._content = content

    def cluster(self) -> Cluster:
        hosts: tuple[ConfiguredHost, ...] = (_DEFAULT,)
        for statement in self._parsed().body:
            value = self._assigned_to_agents(statement)
            if value is not None:
                hosts = tuple(self._hosts(value))
        check_distinct(self._path, hosts)
        return Cluster(hosts)

    def _parsed(self) -> ast.Module:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter('ignore')  # of odd escapes in texts that are not even looked at
                return ast.parse(self._content)
        except SyntaxError as error:
            line = '' if error.lineno is None else f':{error.lineno}'
            raise ClusterError(f'{self._path}{line}: cannot be read: {error.msg}; write {_EXAMPLE}') from None
        except (ValueError, MemoryError, RecursionError):  # NUL characters, and absurd nesting
            raise ClusterError(f'{self._path}: cannot be read as Python; write {_EXAMPLE}') from None

    def _assigned_to_agents(self, statement: ast.stmt) -> ast.expr | None:
        """Return what a statement assigns to ``AGENTS``; None where it assigns to other names, or is only a text."""
        if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant):
            return None
        if isinstance(statement, ast.Assign):
            targets, value = statement.targets, statement.value
        elif isinstance(statement, ast.AnnAssign) and statement.value is not None:
            targets, value = [statement.target], statement.value
        else:
            raise self._refused(statement, f'the file is never executed, so that only {_EXAMPLE} is accepted')
        if any(isinstance(target, ast.Name) and target.id == _AGENTS for target in targets):
            return value
        if any(isinstance(node, ast.Name) and node.id == _AGENTS for target in targets for node in ast.walk(target)):
            raise self._refused(statement, f'AGENTS is assigned alone and as a whole: {_EXAMPLE}')
        return None

    def _hosts(self, value: ast.expr) -> Iterator[ConfiguredHost]:
        if not isinstance(value, ast.List | ast.Tuple):
            raise self._refused(value, f'AGENTS must be a list of texts in quotes: {_EXAMPLE}')
        for element in value.elts:
            if not isinstance(element, ast.Constant) or not isinstance(element.value, str):
                raise self._refused(element, f'an entry of AGENTS must be {ACCEPTED}, in quotes')
            try:
                yield ConfiguredHost(None if element.value == SELF else agent_url(element.value))
            except UrlError as error:
                raise ClusterError(f'{self._path}:{element.lineno}: an entry of AGENTS {error}') from None

    def _refused(self, node: ast.stmt | ast.expr, why: str) -> ClusterError:
        """Return an error with the line that is at fault, unless it may hold a password or a token."""
        line = self._content.splitlines()[node.lineno - 1].decode(errors='replace').strip()
        shown = '' if '@' in line or '?' in line else f'{line[:_LONGEST_SHOWN]!r}: '
        return ClusterError(f'{self._path}:{node.lineno}: {shown}{why}')
