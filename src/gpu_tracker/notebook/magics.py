"""The magics ``%%track`` and ``%track``.

A cell magic cannot await, because the event loop of a kernel already runs. So IPython runs the cell of ``%%track``. An
input transformer replaces the ``%%track`` line by a call that starts the tracker. The event ``post_run_cell`` stops it
and shows the result. So ``await``, the last value, tracebacks, errors and interrupts work as in any cell. A wrong
option is an error of that first call, so the rest of the cell does not run.

``%track STATEMENT`` runs its statement itself.
"""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING, Any

from IPython.core.error import UsageError
from IPython.core.inputtransformer2 import cell_magic
from IPython.core.magic import needs_local_scope, no_var_expand

from gpu_tracker.notebook.options import MAGIC, end_of_options, help_text, read
from gpu_tracker.notebook.tracked_code import TrackedCode

if TYPE_CHECKING:
    from IPython.core.interactiveshell import ExecutionInfo, ExecutionResult, InteractiveShell

    from gpu_tracker.notebook.options import Request

_TRACK_LINE = re.compile(rf'%%{MAGIC}(?:\s+(.*))?')
_REST_OF_CELL = '\n'
"""The cell argument of the call that ``%%track`` is replaced by."""


def load_ipython_extension(shell: InteractiveShell) -> None:
    """Add ``%%track`` and ``%track`` to IPython; ``%load_ext gpu_tracker`` calls it."""
    unload_ipython_extension(shell)
    tracking = _LOADED[shell] = CellTracking(shell)
    shell.register_magic_function(tracking.track, 'line_cell', MAGIC)  # type: ignore[arg-type]  # IPython's own types
    shell.input_transformer_manager.line_transforms.insert(0, started_in_first_line)  # before cell magics
    shell.events.register('pre_run_cell', tracking.enter_cell)
    shell.events.register('post_run_cell', tracking.leave_cell)


def unload_ipython_extension(shell: InteractiveShell) -> None:
    """Stop tracking and remove the magics; ``%unload_ext gpu_tracker`` calls it."""
    tracking = _LOADED.pop(shell, None)
    if tracking is None:
        return
    for kind in ('line', 'cell'):
        shell.magics_manager.magics[kind].pop(MAGIC, None)
    shell.input_transformer_manager.line_transforms.remove(started_in_first_line)
    shell.events.unregister('pre_run_cell', tracking.enter_cell)
    shell.events.unregister('post_run_cell', tracking.leave_cell)
    tracking.end()


def started_in_first_line(lines: list[str]) -> list[str]:
    """Replace ``%%track``, and a cell magic after it, by calls in the lines of a cell."""
    found = _TRACK_LINE.fullmatch(lines[0].rstrip()) if lines else None
    if found is None:
        return lines
    rest = lines[1:]
    first = next((number for number, line in enumerate(rest) if line.strip()), 0)
    if rest and rest[first].startswith('%%'):
        rest = cell_magic(rest[first:])
    return [f'get_ipython().run_cell_magic({MAGIC!r}, {found[1] or ""!r}, {_REST_OF_CELL!r})\n', *rest]


class CellTracking:
    """The magic ``track``, and the cell that runs."""

    def __init__(self, shell: InteractiveShell) -> None:
        self._shell = shell
        self._cell: ExecutionInfo | None = None
        self._tracked: TrackedCode | None = None

    @no_var_expand
    @needs_local_scope
    def track(self, line: str, cell: str | None = None, local_ns: dict[str, Any] | None = None) -> object:
        """Track the enclosing cell, the statement after the options, or the given cell."""
        namespace = self._shell.user_ns if local_ns is None else local_ns
        options = len(line) if cell is not None else end_of_options(line)
        request = read(line[:options], {**self._shell.user_ns, **namespace})
        if cell is not None and cell.isspace():
            self._start_in_cell(request)
            return None
        code = line[options:].strip() if cell is None else cell
        if not code:
            raise UsageError('%track needs a statement, as in %track work(). To track a whole cell, use %%track')
        return self._run(code, request, namespace)

    def enter_cell(self, info: ExecutionInfo) -> None:
        """Store the running cell. Nested cells, as with ``%%capture``, are parts of it."""
        if self._cell is None:
            self._cell = info

    def leave_cell(self, result: ExecutionResult | None) -> None:
        """Stop the tracker of the cell, and show the result."""
        if result is None or result.info is self._cell:
            self._cell = None
            self.end()

    def end(self) -> None:
        """Stop tracking, and show the result."""
        tracked, self._tracked = self._tracked, None
        if tracked is not None:
            tracked.end()

    def _start_in_cell(self, request: Request) -> None:
        if self._tracked is not None:
            raise UsageError('%%track is tracking this cell already')
        if self._cell is not None:  # else it runs without events and output, so nothing could stop the tracker
            code = (self._cell.raw_cell or '').partition('\n')[2]  # after the line of the magic
            self._tracked = TrackedCode(self._shell, request, code)

    def _run(self, code: str, request: Request, namespace: dict[str, Any]) -> object:
        """Run code, and return the value of its last expression."""
        shell = self._shell
        source = shell.transform_cell(code)
        file = shell.compile.cache(source)
        tree = shell.transform_ast(shell.compile.ast_parse(source, filename=file))
        last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
        try:
            statements = compile(tree, file, 'exec', shell.compile.flags, dont_inherit=True)
            value = ast.fix_missing_locations(ast.Expression(ast.Constant(None) if last is None else last.value))
            expression = compile(value, file, 'eval', shell.compile.flags, dont_inherit=True)
        except SyntaxError as error:
            if 'outside' in str(error) and re.search(r'\b(await|async)\b', code):
                raise UsageError('%track cannot run await: put %%track into the first line of the cell') from None
            raise
        tracked = TrackedCode(shell, request, code)
        try:
            exec(statements, shell.user_ns, namespace)  # noqa: S102 - the user typed it
            return eval(expression, shell.user_ns, namespace)  # noqa: S307 - as above
        finally:
            tracked.end()


CellTracking.track.__doc__ = help_text()
_LOADED: dict[InteractiveShell, CellTracking] = {}
