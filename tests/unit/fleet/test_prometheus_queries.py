"""PromQL with what others have chosen in it."""

from __future__ import annotations

import pytest

from gpu_tracker.fleet.prometheus import queries


def test_a_job_is_asked_for_by_its_name():
    assert queries.targets(['gpu-tracker', 'a.b']) == (
        r'max by (job, instance, group, name) (up{job=~"gpu\\-tracker|a\\.b"})'
    )


def test_what_was_is_asked_of_few_hosts_only():
    assert queries.before(['node01:1080']).statuses == (
        r'max by (job, instance, index, status) '
        r'(last_over_time(gpu_tracker_gpu_status{instance=~"node01:1080"}[1h]) == 1)'
    )


@pytest.mark.parametrize(
    ('instance', 'quoted'),
    [
        ('a"} or vector(1) #', r'"a\"} or vector(1) #"'),
        ('back\\slash', r'"back\\slash"'),
        ('new\nline', r'"new\nline"'),
        ('nül\0', r'"nül\u0000"'),
    ],
)
def test_a_hostile_name_stays_a_text(instance, quoted):
    assert queries.utilization_over('gpu-tracker', instance, 10) == (
        f'100 * max by (index, uuid) (gpu_tracker_gpu_utilization_ratio{{job="gpu-tracker",instance={quoted}}})'
    )


def test_over_long_steps_the_mean_is_asked_for():
    assert queries.memory_over('j', 'i', 240) == (
        '100 * max by (index, uuid) (avg_over_time(gpu_tracker_gpu_memory_used_bytes{job="j",instance="i"}[240s]))'
        ' / max by (index, uuid) (avg_over_time(gpu_tracker_gpu_memory_size_bytes{job="j",instance="i"}[240s]))'
    )
