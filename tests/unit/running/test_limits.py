from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu_tracker import limits
from gpu_tracker.cli.options import UsageError, parse
from gpu_tracker.cli.request import read_request
from gpu_tracker.cli.track import TEXT
from gpu_tracker.errors import ParameterError
from gpu_tracker.limits import CPU, GPU_MEMORY, MEMORY, REASONS, SAMPLED, TIME, Limit, RunLimits
from gpu_tracker.sampler.limit_watch import LIMITED, LimitWatch
from gpu_tracker.units import parse_time

TIMES = [
    ('90', 90),
    ('90s', 90),
    (' 1.5 h ', 5400),
    ('1.5H', 5400),
    ('30m', 1800),
    ('30min', 1800),
    ('2d', 172_800),
    ('200ms', 0.2),
    ('.5', 0.5),
    ('1.', 1),
    ('1h30m', 5400),
    ('5 min', 300),
]
NO_TIMES = ['', ' ', 'soon', '-1', '1e3', '1_0', '1h30', '90 90', 'nan', 'inf', '٣', '²', '5x', '1' * 40, 'm', '2GB']
NO_SIZES = ['', '0', '0GB', '2', '0.1B', '-1GB', 'many', '2 s', 'nanGB', '1e3GB', 'GB']


def read(*arguments: str) -> RunLimits | None:
    request = read_request(parse(TEXT, [*arguments, '-e', 'true']))
    assert not isinstance(request, str)
    return request.limits


@pytest.mark.parametrize(('text', 'seconds'), TIMES)
def test_times_as_people_write_them(text: str, seconds: float) -> None:
    assert read('--time-limit', text) == RunLimits((Limit(TIME, seconds, text.strip()),))
    assert read('--cpu-limit', text) == RunLimits((Limit(CPU, seconds, text.strip()),))
    assert read('--cpu-limit=1', '--kill-after', text).kill_after == seconds


@pytest.mark.parametrize(('text', 'size'), [('2GB', 2_000_000_000), ('512MiB', 2**29), ('1.5 kb', 1500), ('2G', 2**31)])
def test_sizes_as_people_write_them(text: str, size: int) -> None:
    assert read('--memory-limit', text) == RunLimits((Limit(MEMORY, size, text),))
    assert read('--gpu-memory-limit', text) == RunLimits((Limit(GPU_MEMORY, size, text),))


@pytest.mark.parametrize('text', [*NO_TIMES, '0', '0h'])
@pytest.mark.parametrize('option', ['--time-limit', '--cpu-limit'])
def test_what_is_no_time(option: str, text: str) -> None:
    with pytest.raises(ParameterError) as raised:
        read(f'{option}={text}')
    accepted = 'a time above 0 such as 90, 90s, 30m or 1h30m (a number alone is of seconds)'
    assert str(raised.value) == f'{option} must be {accepted}, not {text!r}'


@pytest.mark.parametrize('text', NO_SIZES)
@pytest.mark.parametrize('option', ['--memory-limit', '--gpu-memory-limit'])
def test_what_is_no_size(option: str, text: str) -> None:
    with pytest.raises(ParameterError) as raised:
        read(f'{option}={text}')
    accepted = 'a size above 0 with its unit, such as 10GB (powers of 1000), 8GiB or 8G (powers of 1024)'
    assert str(raised.value) == f'{option} must be {accepted}, not {text!r}'


@pytest.mark.parametrize('text', NO_TIMES)
def test_what_is_no_grace(text: str) -> None:
    with pytest.raises(ParameterError) as raised:
        read('--time-limit=1', f'--kill-after={text}')
    accepted = 'a time such as 10, 10s or 2m (a number alone is of seconds; 0 sends SIGKILL at once)'
    assert str(raised.value) == f'--kill-after must be {accepted}, not {text!r}'


def test_no_grace_at_all() -> None:
    assert read('--time-limit=1', '--kill-after=0').kill_after == 0


def test_there_are_no_limits_by_default_and_ten_seconds_of_grace() -> None:
    assert read() is None
    assert read('--time-limit=1') == RunLimits((Limit(TIME, 1, '1'),), 10)


@pytest.mark.parametrize(
    ('arguments', 'message'),
    [
        (
            ['--kill-after=3', '-e', 'true'],
            '--kill-after needs a limit: --time-limit, --cpu-limit, --memory-limit or --gpu-memory-limit',
        ),
        (
            ['--memory-limit=1GB', '--pid=1'],
            '--memory-limit and --pid do not go together: limits end only commands that gpu-tracker started',
        ),
        (['--time-limit=1', '--time-limit=2', '-e', 'true'], '--time-limit was given twice'),
        (['--time-limit', '-e', 'true'], '--time-limit needs a value'),
        (
            ['--kill-after=3', '--pid=1'],
            '--kill-after needs a limit: --time-limit, --cpu-limit, --memory-limit or --gpu-memory-limit',
        ),
    ],
)
def test_what_does_not_go_together(arguments: list[str], message: str) -> None:
    with pytest.raises(UsageError) as raised:
        read_request(parse(TEXT, arguments))
    assert str(raised.value) == message


def test_the_time_needs_no_sampler_and_a_group_can_keep_the_memory() -> None:
    found = read('--time-limit=1', '--cpu-limit=2', '--memory-limit=3GB', '--gpu-memory-limit=4GB')
    assert found.sampled() == {CPU: 2, MEMORY: 3_000_000_000, GPU_MEMORY: 4_000_000_000}
    assert found.sampled(kept_otherwise={MEMORY}) == {CPU: 2, GPU_MEMORY: 4_000_000_000}
    assert found.of(TIME) == Limit(TIME, 1, '1')
    assert RunLimits().of(TIME) is None


@pytest.mark.parametrize(
    ('limit', 'amount', 'kill_after', 'text'),
    [
        (
            Limit(TIME, 90, '90'),
            90.0005,
            10,
            (
                '--time-limit=90 was exceeded: the command and its descendants have run for 90 s. '
                'All of them get SIGTERM, and SIGKILL after 10 s.'
            ),
        ),
        (
            Limit(CPU, 5400, '1.5h'),
            5400.51,
            0.5,
            (
                '--cpu-limit=1.5h was exceeded: the command and its descendants have used 90.01 min of CPU time '
                '(a soft limit, checked at each sample). All of them get SIGTERM, and SIGKILL after 0.5 s.'
            ),
        ),
        (
            Limit(MEMORY, 2e9, '2GB'),
            2_345_678_901,
            0,
            (
                '--memory-limit=2GB (2,000,000,000 bytes) was exceeded: '
                'the command and its descendants have had 2.346 GB of memory '
                '(a soft limit, checked at each sample). All of them get SIGKILL.'
            ),
        ),
    ],
)
def test_the_message_names_the_limit_what_was_seen_and_what_follows(
    limit: Limit, amount: float, kill_after: float, text: str
) -> None:
    assert limits.in_words(limit, amount, kill_after) == text


AMOUNTS = st.one_of(st.none(), st.floats(0, 1e15))
SOME = st.dictionaries(st.sampled_from(REASONS), st.floats(0, 1e15, exclude_min=True))


@given(SOME, st.dictionaries(st.sampled_from(REASONS), AMOUNTS))
def test_a_limit_is_exceeded_by_more_than_it_and_never_by_what_is_unknown(
    values: dict[str, float], used: dict[str, float | None]
) -> None:
    for reason, amount in limits.exceeded(values, used):
        assert amount == used[reason] > values[reason]
    found = {reason for reason, _ in limits.exceeded(values, used)}
    assert all(used.get(reason) is None or used[reason] <= values[reason] for reason in values.keys() - found)


def test_the_message_of_what_was_seen_too_late() -> None:
    assert limits.seen_late_in_words(Limit(MEMORY, 2e9, '2GB'), 2_345_678_901) == (
        '--memory-limit=2GB (2,000,000,000 bytes) was exceeded: '
        'the command and its descendants have had 2.346 GB of memory '
        '(a soft limit, checked at each sample), which was seen only when the command had ended.'
    )
    assert limits.seen_late_in_words(Limit(TIME, 2.0, '2s'), 2.5) == (
        '--time-limit=2s was exceeded: '
        'the command and its descendants have run for 2.5 s, which was seen only when the command had ended.'
    )


def test_the_end_of_a_run_beyond_its_limits_in_words() -> None:
    assert limits.ended_beyond([CPU]) == 'exceeded its CPU limit'
    assert limits.ended_beyond([CPU, GPU_MEMORY]) == 'exceeded its CPU limit and its GPU memory limit'


@given(st.text())
def test_any_text_is_a_time_above_zero_or_refused(text: str) -> None:
    found = parse_time(text, of_number='s')
    if found:
        assert limits.parse(TIME, text) == Limit(TIME, found, text.strip())
    else:
        with pytest.raises(ParameterError):
            limits.parse(TIME, text)


@pytest.mark.parametrize(
    ('reasons', 'found'),
    [
        (['cpu_limit', 'memory_limit'], ('cpu_limit', 'memory_limit')),
        (['cpu_limit', 'a_limit', 3, None, ['x']], ('cpu_limit',)),
        ([], None),
        ('cpu_limit', None),
        (None, None),
        ({'cpu_limit': 1}, None),
    ],
)
def test_only_lists_of_known_reasons_are_taken_from_a_file(reasons: object, found: object) -> None:
    assert limits.all_known(reasons) == found


@pytest.mark.parametrize('reason', ['time_limit', None, 'a_limit', 3, ['time_limit'], b'time_limit'])
def test_only_known_reasons_are_taken_from_a_file(reason: object) -> None:
    assert limits.known(reason) == (reason if reason == 'time_limit' else None)


class Folded:
    """A resource that has used what is set."""

    used: float | None = None

    def used_so_far(self) -> float | None:
        return self.used


def watched(values: dict[str, float]) -> tuple[LimitWatch, dict[str, Folded], list[tuple[str, float]]]:
    resources = {'cpu': Folded(), 'ram': Folded(), 'gpu': Folded()}
    reported: list[tuple[str, float]] = []
    watch = LimitWatch(values, resources, lambda reason, amount: reported.append((reason, amount)))
    return watch, resources, reported


def test_the_sampler_reports_the_first_limit_once() -> None:
    watch, resources, reported = watched({CPU: 2.0, MEMORY: 500, GPU_MEMORY: 700})
    watch.check()
    assert reported == []
    resources['gpu'].used = 701
    watch.check()
    resources['cpu'].used = 3.0
    watch.check()
    assert reported == [(GPU_MEMORY, 701)]


def test_the_totals_of_all_processes_together_are_compared() -> None:
    totals = {
        'cpu': {'main': (1.0, None), 'combined': (3.5, 1.0)},
        'ram': {'main': (400, 300, 100), 'combined': (900, None, None)},
        'gpu': {'combined': None},
        'record': {'tracked_seconds': 7.5},
    }
    assert limits.used_in(totals) == {TIME: 7.5, CPU: 3.5, MEMORY: 900, GPU_MEMORY: None}


def test_what_needs_a_sampler_is_what_it_compares() -> None:
    assert set(SAMPLED) == set(LIMITED)
