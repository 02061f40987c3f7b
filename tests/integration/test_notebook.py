"""``%%track`` in a real kernel: the notebook of the examples, and cells that do what people do in notebooks."""

from __future__ import annotations

import os
import re
import textwrap
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbconvert.preprocessors import ExecutePreprocessor

from support.html_tables import Page
from support.simulated_nvml import Gpu, SimulatedDriver
from support.tracked_program import answer
from support.waiting import TIMEOUT

ROOT = Path(__file__).resolve().parents[2]
NOTEBOOK = ROOT / 'examples' / 'track_in_a_notebook.ipynb'
PAGE = ROOT / 'docs' / 'notebooks.rst'
GIB = 2**30
SQUARES = 'squares = [number * number for number in range(3_000_000)]'
TITLES = ['', 'Main', 'Descendants', 'Combined', 'Over time']
COLORS = re.compile(r'\x1b\[[0-9;]*m')
CHILD = 'import time; begin = time.monotonic(); parts = bytearray(10**7)\nwhile time.monotonic() < begin + 0.5: pass'

MORE_CELLS = {
    'interrupted-await': """\
%%track
import asyncio, os, signal
asyncio.get_running_loop().call_later(0.1, os.kill, os.getpid(), signal.SIGINT)
await asyncio.Event().wait()""",
    'interrupted': """\
%%track
import time
os.kill(os.getpid(), signal.SIGINT)
time.sleep(60)""",
    'with-child': f"""\
%%track --st=0.05
import subprocess, sys
subprocess.run([sys.executable, '-c', {CHILD!r}])""",
    'shell': """\
%%track
!{sys.executable} -c "sum(range(10**6))"
""",
    'forked': """\
%%track
if os.fork() == 0:
    os._exit(0)
os.wait()[1]""",
    'below-other': """\
%%time
%%track
4 + 1""",
    'captures': """\
%%track
%%capture
print('captured')""",
    'captured': """\
%%capture
%%track
print('captured')""",
    'twice': """\
%%timeit -n 1 -r 2
%%track
4 + 1""",
    'unknown': """\
%%track --fast
reached = True""",
    'reached': "'reached' in globals()",
    'syntax': """\
%%track
a b""",
    'empty': '%%track',
    'future': """\
%%track
from __future__ import annotations
def function(argument: Unknown): return 5
function(None)""",
    'value': """\
%track --name=run 2 + 3""",
    'assigned': """\
def product(a):
    b = 2
    found = %track a * b
    return found
product(3)""",
    'raises': '%track 1 / 0',
    'awaits': '%track await asyncio.sleep(0)',
    'no-statement': '%track --st=1',
    'shown-again': 'run',
    'with-report': """\
%%track --report --tf=third.db
os.chdir('temporary')
time.sleep(0.2)""",
    'reloaded': """\
%reload_ext gpu_tracker""",
    'after-reload': """\
%%track
4 + 1""",
    'unloaded': '%unload_ext gpu_tracker',
    'without': """\
%%track
4 + 1""",
}


@pytest.fixture(scope='module')
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp('notebook')


@pytest.fixture(scope='module')
def outputs(folder: Path) -> dict[str, list[Any]]:
    """Return the outputs of each cell, of one kernel: its start takes seconds."""
    notebook = nbformat.read(NOTEBOOK, 4)
    wrong = {'raises-exception'}
    for cell in notebook.cells:
        assert cell.cell_type != 'code' or cell.outputs == []
    for name, source in MORE_CELLS.items():
        cell = nbformat.v4.new_code_cell(source, id=name)
        cell.metadata['tags'] = list(wrong)
        notebook.cells.append(cell)
    run(notebook, folder)
    return {cell.id: cell.outputs for cell in notebook.cells if cell.cell_type == 'code'}


def run(notebook: nbformat.NotebookNode, folder: Path) -> None:
    """Run the cells in a kernel on a machine with one GPU, and keep their outputs in ``notebook``."""
    own = {name: str(folder / name.lower()) for name in ('IPYTHONDIR', 'JUPYTER_CONFIG_DIR', 'JUPYTER_RUNTIME_DIR')}
    (folder / 'temporary').mkdir()
    driver = SimulatedDriver(folder)
    driver.write(gpus=[Gpu(total=8 * GIB, util=40)])
    with pytest.MonkeyPatch.context() as patch:
        own |= {'TMPDIR': str(folder / 'temporary'), 'JUPYTER_PLATFORM_DIRS': '1', **driver.environment()}
        for name, value in own.items():
            patch.setenv(name, value)
        execution = ExecutePreprocessor(timeout=TIMEOUT, kernel_name='python3')
        execution.preprocess(notebook, {'metadata': {'path': str(folder)}})


def pages_of(outputs: list[Any]) -> list[Page]:
    """Return what is shown of runs; the values of cells have their HTML too."""
    return [Page(output.data['text/html']) for output in outputs if 'text/html' in output.get('data', {})]


def table_of(outputs: list[Any]) -> dict[str, list[str]]:
    (page,) = pages_of(outputs)
    assert page.tables[0][0] == TITLES
    assert len(page.images) >= 2
    return {row[0]: row[1:] for row in page.tables[0][1:]}


def value_of(outputs: list[Any]) -> str:
    (value,) = (output for output in outputs if output.output_type == 'execute_result')
    return str(value.data['text/plain'])


def error_of(outputs: list[Any]) -> Any:
    (error,) = (output for output in outputs if output.output_type == 'error')
    return error


def printed(outputs: list[Any]) -> str:
    return ''.join(output.text for output in outputs if output.output_type == 'stream')


def test_a_cell_has_its_value_and_below_it_what_it_has_used(outputs) -> None:
    value, shown = outputs['squares']
    assert value.data['text/plain'] == '8999995500000500000'
    rows = table_of([shown])
    assert list(rows) == [
        'Time', 'Peak RAM', 'CPU, most', 'CPU, mean', 'Threads, most', 'Peak memory of one GPU',
        'GPU busy by this run, mean',
    ]  # fmt: skip
    assert rows['Peak memory of one GPU'][:3] == ['0 B', '0 B', '0 B']
    title, growth, first, *_ = shown.data['text/plain'].splitlines()  # for terminals
    assert (title, first[:12]) == (SQUARES, 'Time        ')
    size = r'\d[\d.]* [kMG]?B'
    assert re.fullmatch(f'RAM: before {size}, peak (≥ )?{size}, added (≥ )?{size}', growth)
    assert f'<b>{SQUARES}</b>' in shown.data['text/html']
    assert growth in shown.data['text/html']


def test_regions_are_a_table_of_their_own(outputs) -> None:
    (page,) = pages_of(outputs['named'])
    assert [row[0] for row in page.tables[1]] == ['Region', 'make', 'sort']


def test_the_tracker_that_was_kept_has_its_result(outputs) -> None:
    assert re.fullmatch(r'\d+\.\d megabytes\n', printed(outputs['named-result']))
    assert value_of(outputs['named-result']) == "['make', 'sort']"
    assert pages_of(outputs['shown-again'])[0].images  # the sparklines too


def test_a_cell_may_await(outputs) -> None:
    assert value_of(outputs['await']) == '[0.1, 0.2]'
    assert 'Time' in table_of(outputs['await'])


def test_commands_are_descendants(outputs) -> None:
    assert printed(outputs['command']).strip() == '100000 numbers.txt'
    assert 'Read from storage' in table_of(outputs['command'])
    assert table_of(outputs['shell'])['CPU, mean'][1] != '0 %'
    assert table_of(outputs['with-child'])['Peak RAM'][1].endswith(' MB')


def test_a_cell_that_raises_has_its_traceback_and_its_table(outputs) -> None:
    error, shown = outputs['fails']
    assert error.ename == 'IndexError'
    text = COLORS.sub('', '\n'.join(error.traceback))
    assert '----> 3 parts[20]' in text
    assert float(table_of([shown])['Peak RAM'][2].removesuffix(' MB')) > 200


@pytest.mark.parametrize(
    ('cell', 'name'), [('interrupted-await', 'CancelledError'), ('interrupted', 'KeyboardInterrupt')]
)
def test_a_cell_that_is_interrupted_has_its_table(outputs, cell: str, name: str) -> None:
    error, shown = outputs[cell]
    assert error.ename in {name, 'KeyboardInterrupt'}
    assert 'Time' in table_of([shown])


def test_a_process_that_a_cell_forks_shows_nothing(outputs) -> None:
    assert value_of(outputs['forked']) == '0'
    assert 'Time' in table_of(outputs['forked'])


def test_a_statement_is_tracked(outputs) -> None:
    assert 'Time' in table_of(outputs['line'])
    shown, value = outputs['value']
    assert (value.data['text/plain'], 'Time' in table_of([shown])) == ('5', True)
    assert value_of(outputs['assigned']) == '6'


def test_a_statement_that_raises_has_its_table(outputs) -> None:
    shown, error = outputs['raises']
    assert error.ename == 'ZeroDivisionError'
    assert 'Time' in table_of([shown])


@pytest.mark.parametrize('cell', ['time', 'below-other', 'captures'])
def test_other_magics_go_with_it(outputs, cell: str) -> None:
    assert 'Time' in table_of(outputs[cell])
    assert ('Wall time' in printed(outputs[cell])) == (cell != 'captures')
    assert 'captured' not in printed(outputs[cell])


def test_the_table_is_below_the_cell_also_if_its_output_is_captured(outputs) -> None:
    assert 'Time' in table_of(outputs['captured'])
    assert printed(outputs['captured']) == ''


@pytest.mark.parametrize(
    ('cell', 'text'),
    [
        ('wrong', 'UsageError: --st must be a positive number of seconds, or a time with its unit such as 100ms, not '),
        ('unknown', 'UsageError: %track: unrecognized arguments: --fast; accepted options: --st=TIME, '),
        (
            'no-statement',
            'UsageError: %track needs a statement, as in %track work(). To track a whole cell, use %%track\n',
        ),
        ('awaits', 'UsageError: %track cannot run await: put %%track into the first line of the cell\n'),
        ('without', 'UsageError: Cell magic `%%track` not found.\n'),
    ],
)
def test_what_is_wrong_is_one_line(outputs, cell: str, text: str) -> None:
    (output,) = outputs[cell]
    assert output.text.startswith(text)
    assert output.text.count('\n') == 1


def test_a_cell_with_wrong_options_is_not_run(outputs) -> None:
    assert value_of(outputs['reached']) == 'False'


def test_a_cell_is_tracked_once(outputs) -> None:
    assert printed(outputs['twice']) == 'UsageError: %%track is tracking this cell already\n'
    assert 'Time' in table_of(outputs['twice'])


def test_cells_without_statements_and_with_a_syntax_error(outputs) -> None:
    assert 'Time' in table_of(outputs['empty'])
    (error,) = outputs['syntax']
    assert error.ename == 'SyntaxError'
    assert value_of(outputs['future']) == '5'


def test_recordings_and_comparisons_are_tables(outputs) -> None:
    recording, comparison = pages_of(outputs['kept-shown'])
    assert recording.tables[0][0] == TITLES
    assert recording.lines[1].endswith('when it was stopped')
    assert comparison.lines[0] == '1 run of by text, 1 run of by number'
    assert comparison.tables[0][0][:4] == ['', 'by text', 'by number', 'ratio']


@pytest.mark.parametrize('cell', ['report', 'with-report'])
def test_the_report_is_in_a_frame_below_the_table(outputs, cell: str) -> None:
    shown, frame = outputs[cell]
    assert 'Time' in table_of([shown])
    html = frame.data['text/html']
    assert html.startswith('<iframe srcdoc="&lt;!doctype html&gt;')
    assert html.endswith('</iframe>')
    assert ' sandbox="allow-scripts" ' in html


def test_loaded_again_it_shows_one_table(outputs) -> None:
    assert outputs['reloaded'] == []
    assert 'Time' in table_of(outputs['after-reload'])


def test_nothing_is_left_of_what_was_recorded(outputs, folder: Path) -> None:
    assert outputs
    assert [name for name in os.listdir(folder / 'temporary') if name.startswith('gpu-tracker')] == []
    assert sorted(path.name for path in folder.glob('*.db')) == ['first.db', 'second.db', 'third.db']


def test_the_cells_of_the_documentation_show_tables(tmp_path: Path) -> None:
    blocks = re.findall(r'^\.\. code-block:: text\n\n((?: {3}.*\n)+)', PAGE.read_text(), re.MULTILINE)
    cells = [nbformat.v4.new_code_cell(textwrap.dedent(block).strip()) for block in blocks]
    notebook = nbformat.v4.new_notebook(cells=cells)
    run(notebook, tmp_path)
    assert [len(pages_of(cell.outputs)) for cell in cells] == [0, 1, 1, 1, 0, 1, 1, 1]


def test_without_a_notebook_nothing_of_it_is_imported() -> None:
    assert (
        answer("""
import json, sys
import gpu_tracker
with gpu_tracker.Tracker(sleep_time=0.05) as tracker:
    pass
str(tracker), repr(tracker.resource_usage)
print(json.dumps([name for name in sys.modules if name.startswith(('IPython', 'gpu_tracker.views', 'sqlite3'))]))
""")
        == []
    )
