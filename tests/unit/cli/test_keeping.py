from __future__ import annotations

import pytest

from gpu_tracker.cli import keeping, options
from gpu_tracker.cli.request import read_request
from gpu_tracker.cli.track import TEXT


def wanted(*words: str, **environment: str) -> bool:
    values = options.parse(TEXT, list(words))
    assert isinstance(values, options.Values)
    return keeping.wanted(values, environment)


@pytest.mark.parametrize('words', [['true'], ['-f', 'json', '-o', 'x.json', 'true'], ['--', 'report']])
def test_commands_are_kept(words: list[str]) -> None:
    assert wanted(*words)


@pytest.mark.parametrize(
    'words',
    [['-e', 'true'], ['--pid=1'], ['--record=run.db', 'true'], ['--job=folder', 'true'], ['--no-keep', 'true']],
)
def test_other_runs_are_not(words: list[str]) -> None:
    assert not wanted(*words)


@pytest.mark.parametrize(
    ('name', 'value'),
    [
        ('GPU_TRACKER_KEEP', '0'), ('CI', 'true'), ('CI', '1'), ('SLURM_JOB_ID', '7'), ('PBS_JOBID', '7'),
        ('LSB_JOBID', '7'), ('OMPI_COMM_WORLD_RANK', '0'), ('PMI_RANK', '0'), ('PMIX_RANK', '0'),
    ],
)  # fmt: skip
def test_runs_that_nobody_looks_for_are_not_unless_that_is_asked_for(name: str, value: str) -> None:
    more = {'OMPI_COMM_WORLD_SIZE': '2'} if name.startswith('OMPI') else {}
    assert not wanted('true', **{name: value}, **more)
    assert wanted('--keep', 'true', **{name: value}, **more)
    assert wanted('--keep', '-e', 'true', **{name: value}, **more)


def test_an_empty_ci_is_none() -> None:
    assert wanted('true', CI='')
    assert wanted('true', CI='false')


@pytest.mark.parametrize(
    ('words', 'message'),
    [
        (['--keep', '--no-keep'], '--keep and --no-keep do not go together'),
        (['--keep', '--record=x.db'], '--keep and --record do not go together: the recording is in that file'),
        (['--keep', '--job=x'], '--keep and --job do not go together: the recording is in its folder'),
    ],
)
def test_what_keeps_a_run_twice_is_refused(words: list[str], message: str) -> None:
    values = options.parse(TEXT, [*words, 'true'])
    assert isinstance(values, options.Values)
    with pytest.raises(options.UsageError) as refused:
        read_request(values)
    assert str(refused.value) == message


def test_a_default_of_the_environment_gives_way(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv('GPU_TRACKER_KEEP', '1')
    values = options.parse(TEXT, ['--record=x.db', 'true'])
    assert isinstance(values, options.Values)
    assert not read_request(values).keeps
    values = options.parse(TEXT, ['-e', 'true'])
    assert isinstance(values, options.Values)
    assert read_request(values).keeps
