"""``gpu-tracker compare``: its table, its JSON, and the conditions on which it fails."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING

import pytest

from support.cli_program import called, gpu_tracker
from support.compared_runs import MB, run, runs

if TYPE_CHECKING:
    from pathlib import Path

NEAREST = (
    'a condition with the name of a figure of the report, such as max_ram.combined, '
    'max_gpu_ram.combined, gpus.max_ram.combined'
)
TABLE = """\
2 runs of old, 2 runs of new

                                                old       new  ratio   95 % interval  verdict
max_ram.system                             787.1 MB  787.1 MB  1.000  1.000 to 1.000  unchanged
max_ram.main.total_rss                     62.16 MB  62.16 MB  1.000  1.000 to 1.000  unchanged
max_ram.main.private_rss                   56.14 MB  56.14 MB  1.000  1.000 to 1.000  unchanged
max_ram.main.shared_rss                    6.029 MB  6.029 MB  1.000  1.000 to 1.000  unchanged
max_ram.combined.total_rss                 100.5 MB  120.5 MB  1.199  1.165 to 1.234  larger
max_ram.combined.private_rss               56.14 MB  56.14 MB  1.000  1.000 to 1.000  unchanged
max_ram.combined.shared_rss                6.029 MB  6.029 MB  1.000  1.000 to 1.000  unchanged
"""

CHANGED = """\
2 runs of old, 2 runs of new

                                 old       new  ratio   95 % interval  verdict
max_ram.combined.total_rss  100.5 MB  120.5 MB  1.199  1.165 to 1.234  larger
compute_time.time               10 s      10 s  1.000  1.000 to 1.000  unchanged

No clear change: 14 figures (see --all).

Conditions:
   passed  compute_time > +5 %: compute_time.time has not changed (limit +5 %): \
from 10 s in old to 10 s in new, 95 % interval +0.0 % to +0.0 %
"""


MARKDOWN = """\
**Failed: max_ram.combined > +5 %**

1 run of old, 1 run of new

|  | old | new | ratio |
| --- | ---: | ---: | ---: |
| max_ram.combined.total_rss | 100 MB | 120 MB | 1.200 |
| max_ram.main.total_rss | 62.16 MB | 62.16 MB | 1.000 |
| cpu_utilization.combined.mean_sum_percent | 1.158 % | 1.158 % | 1.000 |
| compute_time.time | 10 s | 10 s | 1.000 |

- FAILED  max_ram.combined > +5 %: max_ram.combined.total_rss grew by 20.0 % (limit +5 %): \
from 100 MB in old to 120 MB in new
- passed  max_ram.main > 1 GB: max_ram.main.total_rss is 62.16 MB in new, not more than 1 GB
- One run a group has no interval and no verdict: two runs of the same program differ as well.
"""


SUMMARY = """\
1 run of old, 1 run of new
                                               old      new  ratio
max_ram.combined.total_rss                  100 MB   120 MB  1.200
cpu_utilization.combined.mean_sum_percent  1.158 %  1.158 %  1.000
compute_time.time                             10 s     10 s  1.000

FAILED  max_ram.combined > +5 %: max_ram.combined.total_rss grew by 20.0 % (limit +5 %): \
from 100 MB in old to 120 MB in new
"""


def test_the_table(tmp_path: Path) -> None:
    old, new = runs(tmp_path, 'a', [100, 101]), runs(tmp_path, 'b', [120, 121])
    ended = called('compare', f'old={",".join(old)}', f'new={",".join(new)}', '--all')
    assert ended.stdout.startswith(TABLE)
    assert (ended.returncode, ended.stderr) == (0, '')


def test_what_has_changed_and_what_decides_is_shown(tmp_path: Path) -> None:
    old, new = runs(tmp_path, 'a', [100, 101]), runs(tmp_path, 'b', [120, 121])
    ended = called('compare', f'old={",".join(old)}', f'new={",".join(new)}', '--fail-if=compute_time > +5 %')
    assert ended.stdout == CHANGED
    assert (ended.returncode, ended.stderr) == (0, '')


def test_runs_without_a_change_say_so(tmp_path: Path) -> None:
    old, new = runs(tmp_path, 'a', [100, 100.5])
    assert called('compare', f'old={old}', f'new={new}').stdout.startswith(
        '1 run of old, 1 run of new\n\nNo clear change: 16 figures (see --all).\n\nNotes:\n'
    )


def test_markdown_has_the_verdict_first_and_what_decides_and_changed(tmp_path: Path) -> None:
    old, new = runs(tmp_path, 'a', [100]), runs(tmp_path, 'b', [120])
    arguments = (f'old={",".join(old)}', f'new={",".join(new)}', '-f', 'markdown')
    ended = called('compare', *arguments, '--fail-if=max_ram.combined > +5 %', '--fail-if=max_ram.main > 1 GB')
    assert ended.stdout == MARKDOWN
    assert ended.returncode == 1
    assert called('compare', *arguments).stdout.startswith('**Changed: 1 of 16 figures**\n')
    passed = called('compare', *arguments, '--fail-if=compute_time > +5 %').stdout
    assert passed.startswith('**Passed: compute_time > +5 %**\n')
    assert called('compare', arguments[0], f'new={old[0]}', '-f', 'markdown').stdout.startswith('**No clear change**\n')


def test_markdown_has_eight_rows_and_notes_at_most_and_no_markup_of_strangers(tmp_path: Path) -> None:
    names = [f'a|b <i> *{letter}* _x_ y_z' for letter in 'abcdefghi']
    old = run(tmp_path / 'a.db', regions=dict.fromkeys(names, 1.0))
    new = run(tmp_path / 'b.db', regions={name: 2.0 + number for number, name in enumerate(names)})
    others = [run(tmp_path / f'{letter}.db', exit_code=1) for letter in 'cdefghijk']
    shown = called('compare', f'old={old}', f'new={new}', *(f'last={path}' for path in others), '-fmarkdown').stdout
    table = shown.split('\n\n')[2].splitlines()
    assert table[:3] == [
        '|  | old | new | ratio |',
        '| --- | ---: | ---: | ---: |',
        r'| regions."a\|b \<i> \*i\* \_x\_ y_z".wall_time | 1 s | 10 s | 10.000 |',
    ]
    assert len(table) == 10
    assert shown.split('\n\n')[3] == '1 more changed: gpu-tracker compare shows them.'
    assert shown.count('\n- ') == 9
    assert shown.endswith('\n- and 2 more\n')


def test_the_summary(tmp_path: Path) -> None:
    old, new = runs(tmp_path, 'a', [100]), runs(tmp_path, 'b', [120])
    arguments = (f'old={",".join(old)}', f'new={",".join(new)}', '--fail-if=max_ram.combined > +5 %')
    ended = called('compare', *arguments, '--format=summary')
    assert ended.stdout == SUMMARY
    assert ended.returncode == 1


def test_regions_and_notes(tmp_path: Path) -> None:
    old = run(tmp_path / 'a.db', regions={'load': 1.0, 'my step': 2.0, 'gone': 1.0})
    new = run(tmp_path / 'b.db', regions={'load': 1.5, 'my step': None, 'evil\x1b[2J': 1.0}, host='n\x1b2', exit_code=3)
    killed = run(tmp_path / 'c.db', regions={'load': 1.5}, ended=None)
    ended = called('compare', f'old={old}', f'new={new}', f'new={killed}', '--all')
    regions_and_notes = f"""
                             old    new  ratio  verdict
regions.load.wall_time       1 s  1.5 s  1.500
regions."my step".wall_time  2 s    N/A    N/A  unknown in all runs of new

Notes:
   The runs differ in host: old: node1; new: n?2, node1.
   The region gone is in old only.
   The region evil?[2J is in new only.
   The command of {new} (new) ended with exit code 3.
   {killed} (new) is incomplete: its figures are those up to where it ends.
"""
    assert regions_and_notes in ended.stdout
    assert '\x1b' not in ended.stdout


def test_regions_of_one_side_have_no_rows_and_one_note(tmp_path: Path) -> None:
    shared = {'io': 1.0, 'load.io': 1.0}
    old = run(tmp_path / 'a.db', regions=shared | {f'old {number}': 1.0 for number in range(7)})
    new = run(tmp_path / 'b.db', regions=shared | {'load': 1.0, 'train': 1.0})
    shown = called('compare', f'old={old}', f'new={new}', '--all').stdout
    assert [line.split()[0] for line in shown.splitlines() if line.startswith('regions.')] == [
        'regions.io.wall_time',
        'regions."load.io".wall_time',
    ]
    assert '   The regions old 0, old 1, old 2, old 3, old 4 and 2 more are in old only.\n' in shown
    assert '   The regions load and train are in new only.\n' in shown


def test_a_signal_that_has_ended_a_command_has_its_name(tmp_path: Path) -> None:
    old, new = run(tmp_path / 'a.db'), run(tmp_path / 'b.db', exit_code=-9)
    ended = called('compare', f'old={old}', f'new={new}')
    assert f'   The command of {new} (new) ended by SIGKILL.\n' in ended.stdout


def test_one_run_each_says_that_there_is_no_verdict(tmp_path: Path) -> None:
    old, new = runs(tmp_path, 'a', [100, 110])
    shown = called('compare', f'old={old}', f'new={new}').stdout
    assert 'max_ram.combined.total_rss  100 MB  110 MB  1.100\n' in shown
    assert shown.endswith(
        'Notes:\n   One run a group has no interval and no verdict: two runs of the same program differ as well.\n'
    )


def test_a_condition_that_applies_is_a_line_and_exit_code_1(tmp_path: Path) -> None:
    old, new = runs(tmp_path, 'a', [100, 110])
    ended = gpu_tracker(
        'compare', f'old={old}', f'new={new}', '--fail-if=max_ram.combined > +5 %', '--fail-if', 'compute_time > 1 h'
    )
    line = 'max_ram.combined.total_rss grew by 10.0 % (limit +5 %): from 100 MB in old to 110 MB in new'
    assert ended.stderr == f'gpu-tracker: max_ram.combined > +5 %: {line}\n'
    assert ended.returncode == 1
    assert ended.stdout.endswith(
        'Conditions:\n'
        f'   FAILED  max_ram.combined > +5 %: {line}\n'
        '   passed  compute_time > 1 h: compute_time.time is 10 s in new, not more than 1 h\n'
    )


def test_conditions_that_do_not_apply_leave_the_exit_code_0(tmp_path: Path) -> None:
    old, new = runs(tmp_path, 'a', [100, 101])
    ended = called('compare', f'old={old}', f'new={new}', '--fail-if=max_ram.combined > +5 %')
    assert (ended.returncode, ended.stderr) == (0, '')


def test_what_is_unknown_fails(tmp_path: Path) -> None:
    old, new = runs(tmp_path, 'a', [100, 101])
    ended = called('compare', f'old={old}', f'new={new}', '--fail-if=max_gpu_ram.combined > +5 %', '-fjson')
    text = 'the change of max_gpu_ram.combined is not known: it is 0 in all runs'
    assert ended.stderr == f'gpu-tracker: max_gpu_ram.combined > +5 %: {text}\n'
    assert ended.returncode == 1
    assert json.loads(ended.stdout)['conditions'] == [
        {'expression': 'max_gpu_ram.combined > +5 %', 'passed': False, 'text': text}
    ]


def test_json(tmp_path: Path) -> None:
    old, new = runs(tmp_path, 'a', [100, 101])
    ended = called('compare', '-f', 'json', f'old={old}', f'new={new}')
    shown = json.loads(ended.stdout)
    keys = ['conditions', 'differences', 'figures', 'figures_by_gpu', 'groups', 'incomplete', 'unpaired_regions']
    assert sorted(shown) == keys
    (ram,) = (figure for figure in shown['figures'] if figure['name'] == 'max_ram.combined.total_rss')
    assert ram['other'] == {'group': 'new', 'values': [101 * MB], 'mean': 101 * MB, 'is_lower_bound': False}


def test_the_report_can_go_to_a_file(tmp_path: Path) -> None:
    old, new = runs(tmp_path, 'a', [100, 110])
    file = tmp_path / 'report.json'
    ended = called(
        'compare', f'old={old}', f'new={new}', '-f', 'json', '-o', str(file), '--fail-if=max_ram.combined > +5 %'
    )
    assert (ended.returncode, ended.stdout) == (1, '')
    assert json.loads(file.read_text())['conditions'][0]['passed'] is False


def test_a_recording_is_not_overwritten(tmp_path: Path) -> None:
    old, new = runs(tmp_path, 'a', [100, 110])
    ended = called('compare', f'old={old}', f'new={new}', '-o', new)
    assert ended.returncode == 125
    assert ended.stderr == f'gpu-tracker: --output must be a file other than the compared recordings, not {new!r}\n'
    assert called('compare', f'old={old}', f'new={new}').returncode == 0


def test_more_than_two_groups(tmp_path: Path) -> None:
    paths = runs(tmp_path, 'a', [100, 110, 120])
    shown = called('compare', *(f'{name}={path}' for name, path in zip('abc', paths, strict=True))).stdout
    assert '1 run of a, 1 run of b\n' in shown
    assert '1 run of a, 1 run of c\n' in shown


@pytest.mark.parametrize(
    ('words', 'names'),
    [
        (['a.db', 'runs/b.db'], ['a', 'b']),
        (['b.db', 'runs/b.db'], ['b.db', 'runs/b.db']),
        (['a=b.db', 'a=c.db', 'b.db'], ['a=b', 'a', 'b']),
        (['a=b.db', 'a=c.db', 'a.db'], ['a=b', 'a', 'a.db']),
        (['b=a.db,c.db', 'b.db'], ['b', 'b.db']),
    ],
)
def test_a_file_alone_is_a_group_named_by_it(tmp_path: Path, words: list[str], names: list[str]) -> None:
    (tmp_path / 'runs').mkdir()
    for name in ('a', 'b', 'c', 'a=b', 'runs/b'):
        run(tmp_path / f'{name}.db')
    ended = called('compare', *words, '-f', 'json', cwd=tmp_path)
    assert [group['name'] for group in json.loads(ended.stdout)['groups']] == names


@pytest.mark.parametrize('name', ['a,b.db', 'a=b.db', ',', 'x y.db'])
def test_names_of_files_with_commas_and_equals_signs(tmp_path: Path, name: str) -> None:
    run(tmp_path / name)
    run(tmp_path / 'other.db')
    ended = called('compare', 'old=other.db', f'old={name}', f'new={name}', '-f', 'json', cwd=tmp_path)
    groups = json.loads(ended.stdout)['groups']
    assert [[each['path'] for each in group['runs']] for group in groups] == [['other.db', name], [name]]


TWO_GROUPS = 'compare needs two groups of recordings with different names, as in: gpu-tracker compare a.db b.db'


@pytest.mark.parametrize(
    ('arguments', 'text'),
    [
        ([], TWO_GROUPS),
        (['old=a.db'], TWO_GROUPS),
        (['a.db', 'a.db'], TWO_GROUPS),
        (['old=', 'new=b.db'], "'old=' is not a group of recordings: write FILE or NAME=FILE[,FILE...]"),
        (['=a.db', 'new=b.db'], "'=a.db' is not a group of recordings: write FILE or NAME=FILE[,FILE...]"),
        (['old=a.db,', 'new=b.db'], "'old=a.db,' has no file name before or after a comma"),
        (['old=a', 'new=b', '--salvage', '--salvage'], '--salvage was given twice'),
    ],
)
def test_groups_that_are_none(tmp_path: Path, arguments: list[str], text: str) -> None:
    ended = called('compare', *arguments, env={**os.environ, 'XDG_STATE_HOME': str(tmp_path)})
    assert ended.stderr == f"gpu-tracker: {text}\nTry 'gpu-tracker compare --help'.\n"
    assert (ended.returncode, ended.stdout) == (125, '')


@pytest.mark.parametrize(
    ('arguments', 'text'),
    [
        (['-f', 'xml'], "--format must be text, json, summary or markdown, not 'xml'"),
        (['--fail-if', 'max_ram.combind > +5 %'], f"--fail-if must be {NEAREST}, not 'max_ram.combind > +5 %'"),
        ([], 'cannot read missing.db: No such file or directory'),
        (
            ['-o', 'no/folder'],
            (
                "--output must be a path that can be written (there is no folder FOLDER/no), not 'no/folder'. "
                'See "gpu-tracker explain cannot-write".'
            ),
        ),
    ],
)
def test_failures_of_its_own_are_exit_code_125(tmp_path: Path, arguments: list[str], text: str) -> None:
    ended = called('compare', *arguments, 'old=missing.db', 'new=missing.db', cwd=tmp_path)
    assert ended.stderr.replace(str(tmp_path), 'FOLDER') == f'gpu-tracker: {text}\n'
    assert (ended.returncode, ended.stdout) == (125, '')


def test_a_cut_recording_is_read_with_salvage_only(tmp_path: Path) -> None:
    old, new = runs(tmp_path, 'a', [100, 110])
    whole = (tmp_path / 'a1.db').read_bytes()
    (tmp_path / 'a1.db').write_bytes(whole[: len(whole) - 5000])
    assert called('compare', f'old={old}', f'new={new}').returncode == 125
    ended = called('compare', f'old={old}', f'new={new}', '--salvage')
    assert ended.returncode in {0, 125}
    assert 'Traceback' not in ended.stderr
    assert 'internal error' not in ended.stderr


def test_help() -> None:
    ended = called('compare', '--help')
    assert 'gpu-tracker compare old=a.db,b.db,c.db new=d.db,e.db,f.db' in ended.stdout
    assert max(map(len, ended.stdout.splitlines())) <= 88
