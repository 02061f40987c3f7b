"""States as the lines of a screen."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu_tracker.system.terminal_text import width_of
from gpu_tracker.views.live.model import RegionState
from gpu_tracker.views.live.quantities import ASCII
from gpu_tracker.views.live.screen import colored, plain, screen_lines
from support.live_states import CPU, GPU_RAM, NINE_GPUS, RAM, state

if TYPE_CHECKING:
    from gpu_tracker.views.live.model import State

SCREENS = Path(__file__).parents[2] / 'data' / 'live_screens'
FOOTER = 'q ends the view; the program goes on'


@pytest.mark.parametrize(('width', 'height'), [(80, 24), (200, 50)])
@pytest.mark.parametrize(('shown', 'name'), [(state(), ''), (state(gpus=NINE_GPUS), '-nine-gpus')])
def test_a_whole_screen(width: int, height: int, shown: State, name: str) -> None:
    expected = (SCREENS / f'{width}x{height}{name}.txt').read_text()
    assert plain(screen_lines(shown, width, height, footer=FOOTER)) == expected.splitlines()


def test_what_remains_of_a_small_screen() -> None:
    assert plain(screen_lines(state(), 40, 8, footer=FOOTER)) == [
        'python train.py --epochs 10…  1 min 40 s',
        '',
        '                         now       peak',
        'RAM         █░░░░░   2.00 GB    2.50 GB',
        'CPU         ██░░░░      140%       300%',
        'Disk read   ██████  123 kB/s   123 kB/s',
        'CPU power                N/A        N/A',
        'GPU 0 RAM   ██████   9.50 GB    9.50 GB',
    ]
    assert plain(screen_lines(state(), 22, 5)) == [
        'python tr…  1 min 40 s',
        '',
        '                  now',
        'RAM           2.00 GB',
        'CPU              140%',
    ]


def test_a_run_that_has_ended() -> None:
    ended = state(
        figures=(RAM,),
        gpus=((GPU_RAM._replace(now=None),),),
        processes=None,
        regions=(),
        other_gpus=(),
        ending='Over.',
    )
    assert plain(screen_lines(ended, 80, None)) == [
        'python train.py --epochs 10 --data /data/images …  pid 4242 on node1, 1 min 40 s',
        '',
        '                                        last  last 2 min                    peak',
        'RAM         ██░░░░░░░░░░░    2.00 of 16.0 GB     ▁▁▁▂▂▂▃▃▃▄▄▄▅▅▅▆▆▆▇▇    2.50 GB',
        'GPU 0 RAM   ████████████░    9.50 of 10.0 GB            █████████████    9.50 GB',
    ]


def test_a_run_of_which_nothing_is_known_yet() -> None:
    ram = RAM._replace(now=None, peak=None, points=())
    empty = state(seconds=None, figures=(ram,), gpus=(), processes=[], regions=())
    assert plain(screen_lines(empty._replace(other_gpus=()), 80, 24)) == [
        'python train.py --epochs 10 --data /data/imag…  pid 4242 on node1, no sample yet',
        '',
        '                                         now  last 30 s                     peak',
        'RAM                                      N/A                                 N/A',
    ]


def test_without_blocks() -> None:
    small = state(figures=(RAM, CPU), gpus=(), processes=None, regions=(), other_gpus=())
    lines = plain(screen_lines(small, 80, 24, symbols=ASCII))
    assert lines[3:] == [
        'RAM         ##-----------    2.00 of 16.0 GB     ___...:::---===+++**    2.50 GB',
        'CPU         #####--------       140% of 400%     *###+-__.=*###=:__--       300%',
    ]


def test_gpus_that_do_not_fit_take_turns() -> None:
    shown = []
    for seconds in (100.0, 105.0, 110.0):
        lines = plain(screen_lines(state(gpus=NINE_GPUS, seconds=seconds), 80, 24))
        shown.append([line for text in lines for line in re.findall(r'^GPU . RAM|^9 GPUs.*', text)])
    assert shown == [
        ['GPU 0 RAM', 'GPU 1 RAM', 'GPU 2 RAM', 'GPU 3 RAM', 'GPU 4 RAM', '9 GPUs, page 1 of 2, 5 s each'],
        ['GPU 5 RAM', 'GPU 6 RAM', 'GPU 7 RAM', 'GPU 8 RAM', '9 GPUs, page 2 of 2, 5 s each'],
        ['GPU 0 RAM', 'GPU 1 RAM', 'GPU 2 RAM', 'GPU 3 RAM', 'GPU 4 RAM', '9 GPUs, page 1 of 2, 5 s each'],
    ]


def test_colours_add_nothing_but_escapes() -> None:
    lines = screen_lines(state(figures=(RAM, GPU_RAM), gpus=()), 80, 24)
    assert colored(lines)[3] == (
        'RAM         \x1b[32m██░░░░░░░░░░░\x1b[0m    2.00 of 16.0 GB  \x1b[36m   ▁▁▁▂▂▂▃▃▃▄▄▄▅▅▅▆▆▆▇▇\x1b[0m    2.50 GB'
    )
    assert '\x1b[31m████████████░\x1b[0m' in colored(lines)[4]
    assert colored(lines)[0].startswith('\x1b[1mpython train.py')


def test_tables_share_what_room_there_is() -> None:
    regions = [RegionState(f'region-{index}', 0, 1.0) for index in range(40)]
    lines = plain(screen_lines(state(regions=regions), 80, 24))
    assert [line for line in lines if 'Processes' in line or 'regions' in line] == [
        'Processes (6 of 13)                   PID        CPU        RAM    GPU RAM',
        'Open regions (5 of 40)           open for',
    ]
    assert lines[-1].startswith('region-4')
    assert len(lines) == 24


@given(st.integers(1, 250), st.integers(1, 60))
def test_no_line_is_too_wide_and_no_screen_too_high(width: int, height: int) -> None:
    lines = plain(screen_lines(state(), width, height, footer=FOOTER))
    assert max(map(width_of, lines)) <= width
    assert len(lines) <= height
    assert not any(line != line.rstrip() for line in lines)


@given(st.integers(20, 120))
def test_wide_characters_are_counted_as_two_columns(width: int) -> None:
    lines = plain(screen_lines(state(title='訓練' * 40, regions=[RegionState('区域' * 30, 0, 1.0)]), width, 24))
    assert max(map(width_of, lines)) <= width
