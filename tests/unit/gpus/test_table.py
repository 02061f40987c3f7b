"""The table of GPUs, whole."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from gpu_tracker.gpus.model import GpuActivity
from gpu_tracker.gpus.table import table_text
from support.gpus.example_gpus import FREE, GPUS, IN_USE, LOST, NOW, SHARED, SPLIT, UNIFIED, UNSEEN, user_name

TABLES = Path(__file__).resolve().parents[2] / 'data' / 'gpu_table'
WIDTHS = (80, 120, 200)

UNIFIED_AT_80 = """\
GPU       type  util  memory GB  temp  power  users  since        pids  command
0    [~]  GB10   96%        N/A  66°C    34W  alice  40 seconds…  812   train.py"""

COLORED_AT_80 = """\
\x1b[1mGPU       type            util  memory GB  temp  users      pids      command\x1b[0m
0    \x1b[32m[ ]\x1b[0m  A100-SXM4-40GB    0%   0.5/42.9  31°C
1    \x1b[34m[~]\x1b[0m  A100-SXM4-40GB   97%  38.2/42.9  64°C  alice      4242      train.py
2    \x1b[34m[~]\x1b[0m  A100-SXM4-40GB   58%  21.5/42.9  55°C  bob,alice  5101,51…  evaluate.…
3    \x1b[31m[!]\x1b[0m  A100-SXM4-40GB   12%  12.1/42.9  41°C  ?          999999    N/A
4    \x1b[33m[c]\x1b[0m  A100-SXM4-40GB    0%   0.5/42.9  31°C
5    \x1b[35m[x]\x1b[0m  \x1b[35mlost: fallen off the bus or otherwise out of reach (NVML code 15)\x1b[0m
6    \x1b[35m[x]\x1b[0m  \x1b[35mmay not be read by this user (NVML code 4)\x1b[0m
7    [-]  A100-SXM4-40GB   N/A   9.3/42.9  44°C
7:0  \x1b[34m[~]\x1b[0m  MIG 3g.20gb      N/A   9.2/20.9        bob        7007      serve.py
7:1  \x1b[32m[ ]\x1b[0m  MIG 2g.10gb      N/A   0.0/10.5
7:2  \x1b[33m[c]\x1b[0m  MIG 1g.5gb       N/A    0.0/5.1
GPU 4: claimed by alice (pid 4300, python sweep.py --seed 7)
GPU 7 MIG 2: claimed by alice for another 58 s"""

AT_40 = """\
GPU       util  memory GB  users
0    [ ]    0%   0.5/42.9
1    [~]   97%  38.2/42.9  alice
2    [~]   58%  21.5/42.9  bob,alice
3    [!]   12%  12.1/42.9  ?
4    [c]    0%   0.5/42.9
5    [x]  lost: fallen off the bus or o…
6    [x]  may not be read by this user …
7    [-]   N/A   9.3/42.9
7:0  [~]   N/A   9.2/20.9  bob
7:1  [ ]   N/A   0.0/10.5
7:2  [c]   N/A    0.0/5.1
GPU 4: claimed by alice (pid 4300, pyth…
GPU 7 MIG 2: claimed by alice for anoth…"""


def table(gpus=GPUS, width=None, **options):
    return table_text(gpus, width=width, now=NOW, user_name=user_name, **options)


def expected(width):
    return (TABLES / f'{width}.txt').read_text(encoding='utf-8').removesuffix('\n')


def without_codes(text):
    return re.sub(r'\x1b\[[0-9;]*m', '', text)


@pytest.mark.parametrize('width', WIDTHS)
def test_the_table_at_the_widths_of_terminals(width):
    assert table(width=width) == expected(width)


@pytest.mark.parametrize('width', WIDTHS)
def test_colors_add_nothing_but_colors(width):
    assert without_codes(table(width=width, color=True)) == expected(width)


def test_without_a_terminal_nothing_is_left_out():
    assert table() == expected(200)


def test_the_colors():
    assert table(width=80, color=True) == COLORED_AT_80


def test_a_narrow_terminal_still_shows_what_is_free_and_what_is_wrong():
    assert table(width=40) == AT_40


def test_a_gpu_without_memory_of_its_own():
    assert table([UNIFIED], width=80) == UNIFIED_AT_80


def test_each_of_several_processes_has_its_share_of_the_utilization():
    first, second, third = SHARED.processes
    shared = SHARED._replace(processes=(first._replace(utilization=40), second._replace(utilization=0), third))
    assert '  5101 40%,5102 0%,5177  ' in table_text([shared], width=None, now=NOW, user_name=user_name)
    alone = SHARED._replace(processes=(first._replace(utilization=40),))
    assert '  5101  ' in table_text([alone], width=None, now=NOW, user_name=user_name)


def test_no_gpus():
    assert table([], width=80) == ('GPU    type  util  memory GB  temp  MHz  power  users  since  pids  command')


ACTIVITY_AT_80 = """\
GPU       util   SM  occ  tensor  DRAM  memory GB  users  command
0    [ ]    0%   0%   0%      0%    0%   0.5/42.9
1    [~]   97%  81%  40%     23%   N/A  38.2/42.9  alice  train.py
5    [x]  lost: fallen off the bus or otherwise out of reach (NVML code 15)
3    [!]   12%  N/A  N/A     N/A   N/A  12.1/42.9  ?      N/A
GPU 3: activity N/A: has no counters"""


def test_the_activity_of_gpus_fits_a_narrow_terminal() -> None:
    gpus = [
        FREE._replace(activity=GpuActivity(None, None, 2.0, 0.0, 0.0, 0.0, 0.0)),
        IN_USE._replace(activity=GpuActivity(None, None, 2.0, 81.2, 40.0, 22.6)),
        LOST,
        UNSEEN._replace(activity=GpuActivity(problem='has no counters')),
    ]
    assert table(gpus, 80) == ACTIVITY_AT_80


def test_mig_devices_have_the_activity_of_their_own() -> None:
    parts = [part._replace(activity=GpuActivity(sm=10.0)) for part in SPLIT.mig_devices or ()]
    lines = table([SPLIT._replace(mig_devices=tuple(parts))]).splitlines()
    start = lines[0].index('SM') - 1
    assert [line[start : start + 3] for line in lines[1:5]] == ['   ', '10%', '10%', '10%']
