"""``gpu-tracker plot`` and ``Recording.plot()``: what is drawn, and the files that come of it."""

from __future__ import annotations

import subprocess
import sys
from contextlib import ExitStack
from typing import TYPE_CHECKING

import pytest

from gpu_tracker.cli import main
from gpu_tracker.errors import ParameterError, RecordingError
from gpu_tracker.installation import install_command
from gpu_tracker.recording.reading.recording import load
from gpu_tracker.views.overlay import overlay
from support.pictured_run import training
from support.recordings import busy_rows, region, write_recording

if TYPE_CHECKING:
    from pathlib import Path

BEGINNINGS = {'png': b'\x89PNG\r\n', 'svg': b'<?xml version', 'pdf': b'%PDF-1.'}


@pytest.fixture
def run(tmp_path: Path) -> str:
    return training(tmp_path / 'run.db', command='cost_$5_$6.py')


def test_what_is_drawn_is_what_was_recorded(run: str):
    with load(run) as recording:
        drawn = recording.plot()
        rows = list(recording.samples)
    gpu_ram, gpu, ram, cpu, io, power = drawn.axes
    assert [axis.get_ylabel() for axis in drawn.axes] == [
        'GPU memory\n(GB)',
        'GPU utilization\n(%)',
        'RAM\n(MB)',
        'CPU\n(%)',
        'I/O\n(MB/s)',
        'Power\n(W)',
    ]
    lines = {line.get_label(): line for line in ram.lines}
    assert list(lines) == ['all processes', 'main process', 'peak, 13.8 MB']
    assert list(lines['all processes'].get_xdata()) == pytest.approx([row.t for row in rows])
    assert list(lines['all processes'].get_ydata()) == pytest.approx([row.combined_total_rss / 1e6 for row in rows])
    steps = {patch.get_label(): patch for patch in cpu.patches if patch.get_label() and patch.get_label()[0] != '_'}
    assert list(steps) == ['all processes', 'main process', 'descendants', 'whole machine']
    values, edges, below = steps['descendants'].get_data()
    assert (len(edges), edges[0], edges[-1]) == (len(values) + 1, 0.0, 10.0)
    assert list(values) == pytest.approx([150.0] * len(values))
    assert list(below) == pytest.approx([50.0] * len(values))
    assert [line.get_label() for line in gpu.lines] == ['GPU 0', 'GPU 1', 'one GPU']
    assert len(gpu_ram.lines) == 4
    assert [patch.get_label() for patch in (*io.patches, *power.patches) if patch.get_label()[0] != '_'] == [
        'read from storage',
        'written to storage',
        'GPUs in use',
    ]
    bands = [patch for patch in ram.patches if patch.get_label() == '_epoch']
    assert [round(band.get_x(), 3) for band in bands] == [1.0, 3.667, 6.333]
    assert [round(band.get_width(), 3) for band in bands] == [2.0, 2.0, 2.0]
    assert (
        drawn.get_supxlabel().replace('\\', '').startswith('python cost_$5_$6.py --epochs=3\nnode1, 2026-09-21, 10 s')
    )


def test_runs_are_drawn_over_each_other_with_a_colour_for_each_group(tmp_path: Path):
    paths = [training(tmp_path / f'{name}.db', speed=speed) for name, speed in (('a', 1.0), ('b', 1.0), ('c', 2.0))]
    alone = write_recording(tmp_path / 'd.db', rows=busy_rows(), meta={'host': 'node2'})
    with ExitStack() as stack:
        first, second, third, fourth = (stack.enter_context(load(path)) for path in [*paths, alone])
        drawn = overlay({'old': [first, second], 'new': [third], 'cost $5': [fourth]}, ['ram', 'gpu'])
    ram, gpu = drawn.axes
    assert [axis.get_ylabel() for axis in drawn.axes] == ['RAM\n(MB)', 'GPU utilization\n(%)']
    assert [(line.get_gid(), line.get_xdata()[-1]) for line in ram.lines] == [
        ('old', 10.0),
        ('old', 10.0),
        ('new', 5.0),
        ('cost $5', 10.0),
    ]
    assert [line.get_gid() for line in gpu.lines] == ['old', 'old', 'new']
    one, two, three, four = (line.get_color() for line in ram.lines)
    assert (one == two, len({one, three, four})) == (True, 3)
    (legend,) = drawn.legends
    assert legend.get_title().get_text() == 'python train.py --epochs=3; python train.py'
    assert [text.get_text() for text in legend.get_texts()] == ['old', 'new', r'cost \$5']
    assert drawn.get_supxlabel().splitlines()[1::2] == [
        'old: node1, 2026-09-21, 10 s, sampled every 0.1 s, gpu-tracker 6.0.0',
        r'cost \$5: node2, 2026-09-21, 10 s, sampled every 1 s, gpu-tracker 6.0.0',
    ]


def test_groups_and_files_are_drawn_by_the_command(run: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]):
    other = training(tmp_path / 'other.db', speed=2.0)
    picture = tmp_path / 'both.svg'
    assert main(['plot', run, f'new={other}', '-o', str(picture), '--only=ram']) == 0
    assert capfd.readouterr() == ('', '')
    svg = picture.read_text()
    assert '>run</text>' in svg
    assert '>new</text>' in svg
    empty = write_recording(tmp_path / 'empty.db')
    assert main(['plot', empty, f'new={empty}', '-o', str(picture), '--only=ram']) == 125
    assert capfd.readouterr().err == 'gpu-tracker: the recordings have no data to plot for ram\n'


def test_the_picture_of_one_recording_lies_beside_it(run: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]):
    for _ in range(2):
        assert main(['plot', run, '--only=ram']) == 0
        assert capfd.readouterr() == ('', f'The picture is in {tmp_path}/run.png\n')
    (tmp_path / 'run.png').write_text('mine')
    assert main(['plot', run, '--only=ram']) == 125
    assert capfd.readouterr().err == (
        f'gpu-tracker: {tmp_path}/run.png exists, but is not a file of gpu-tracker. Choose another file with --output\n'
    )


DRAW = """
import sys
from gpu_tracker.cli import main
run, *paths = sys.argv[1:]
sys.exit(max(main(['plot', run, '-o', path, '--only=ram,gpu']) for path in paths))
"""


def test_each_process_writes_the_same_files(run: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]):
    here, there = ([tmp_path / f'{place}.{kind}' for kind in BEGINNINGS] for place in ('here', 'there'))
    subprocess.run([sys.executable, '-c', DRAW, run, *map(str, there)], check=True)
    for path in here:
        assert main(['plot', run, '-o', str(path), '--only=ram,gpu']) == 0
    assert capfd.readouterr() == ('', '')
    for mine, other, beginning in zip(here, there, BEGINNINGS.values(), strict=True):
        assert mine.read_bytes() == other.read_bytes()
        assert mine.read_bytes().startswith(beginning)
    svg = (tmp_path / 'here.svg').read_bytes()
    assert b'GPU utilization' in svg
    assert b'>CPU' not in svg


def test_a_part_of_the_run(run: str):
    with load(run) as recording:
        drawn = recording.plot(['ram'], start=2.0, stop=4.0)
    (axis,) = drawn.axes
    assert axis.get_xlim() == (2.0, pytest.approx(3.9))


def test_what_cannot_be_drawn_is_said(run: str, tmp_path: Path):
    with load(run) as recording, pytest.raises(ParameterError, match=r"only must be some of ram, .*, not 'disk'"):
        recording.plot(['disk'])
    with (
        load(write_recording(tmp_path / 'empty.db')) as empty,
        pytest.raises(RecordingError, match='no data to plot for ram'),
    ):
        empty.plot(['ram'])


@pytest.mark.parametrize(
    ('words', 'message'),
    [
        (['{run}', '{run}'], 'a plot of several recordings needs --output=FILE'),
        (['{run}', '-o', 'x.gif'], "--output must be a path that ends in .png, .svg or .pdf, not 'x.gif'"),
        (
            ['{run}', '-o', 'x.png', '--only=disk'],
            "--only must be some of ram, cpu, gpu_ram, gpu, gpu_activity, io, power, not 'disk'",
        ),
        (
            ['{run}', '-o', 'x.png', '--from=10'],
            "--from must be less than the duration of the recording, 10 s, not '10'",
        ),
        (['{run}', '-o', '/nowhere/x.png'], 'cannot write /nowhere/x.png: No such file or directory'),
    ],
)
def test_mistakes_are_said_in_a_line(run: str, capfd: pytest.CaptureFixture[str], words: list[str], message: str):
    assert main(['plot', *(word.format(run=run) for word in words)]) == 125
    out, errors = capfd.readouterr()
    assert out == ''
    assert errors.splitlines()[0] == f'gpu-tracker: {message}'


def test_without_matplotlib_it_is_named(run: str, tmp_path: Path):
    program = f"import sys; sys.modules['matplotlib'] = None; import gpu_tracker; gpu_tracker.load({run!r}).plot()"
    done = subprocess.run([sys.executable, '-c', program], capture_output=True, text=True, check=False)
    start = 'RecordingError: a plot needs the package matplotlib: '
    assert f'{start}{install_command("plot")}\n' in done.stderr
    assert sys.executable in install_command('plot')


def test_names_have_colours_of_their_own_and_letters_that_the_font_lacks_are_no_trouble(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
):
    names = ['日本語', 'x' * 5000, *(f'step {number}' for number in range(7))]
    regions = [region(10 + number, name, number, number + 1 - number / 20) for number, name in enumerate(names)]
    path = write_recording(tmp_path / 'run.db', rows=busy_rows(), regions=regions)
    assert main(['plot', path, '-o', str(tmp_path / 'x.png')]) == 0
    assert capfd.readouterr().err == ''
    with load(path) as recording:
        drawn = recording.plot(['ram'])
    (legend,) = drawn.legends
    texts = [text.get_text() for text in legend.get_texts()]
    assert (len(texts), texts[0], len(texts[1])) == (5, '日本語', 80)
    assert texts[-1] == 'step 2 (and 4 more that are not shaded)'
    assert len({handle.get_facecolor() for handle in legend.legend_handles}) == 5


def test_twenty_gpus_are_told_apart(tmp_path: Path):
    path = write_recording(
        tmp_path / 'run.db',
        rows=busy_rows(2),
        gpus=[(number, f'GPU-{number}', None, None) for number in range(20)],
        gpu_samples=[(t, number, 1000, 500, 1000) for t in (0, 1_000_000) for number in range(20)],
    )
    with load(path) as recording:
        (axis,) = recording.plot(['gpu']).axes
    lines = axis.lines[:20]
    assert len({(line.get_color(), str(line._unscaled_dash_pattern)) for line in lines}) == 20
