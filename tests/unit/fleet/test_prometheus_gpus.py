"""GPUs put together from series."""

from __future__ import annotations

import pytest

from gpu_tracker.fleet.hosts.report import GpuReport, ProcessReport
from gpu_tracker.fleet.prometheus.agents import Target
from gpu_tracker.fleet.prometheus.gpus import gpus_by_target
from support.fleet.prometheus_samples import NODE01, answers, gpu, sample

NODE02 = Target('gpu-tracker', 'node02:1080')


def of_one_host(*gpus, **others):
    ((_, listed),) = gpus_by_target(answers(*gpus, **others))
    return listed


def test_a_gpu_has_all_that_is_exported():
    assert of_one_host(
        gpu('3'),
        statuses=[sample(index='3', status='in_use')],
        utilization_ratio=[sample(0.29, index='3')],
        memory_size=[sample(85_899_345_920.0, index='3')],
        memory_used=[sample(1e9, index='3')],
        memory_free=[sample(8e10, index='3')],
        temperature=[sample(41.0, index='3')],
        sm_clock=[sample(1.98e9, index='3')],
        power_watts=[sample(120.5, index='3')],
        power_limit=[sample(700.0, index='3')],
        processes=[sample(0.0, index='3')],
    ) == (
        GpuReport(
            key='GPU-3',
            number=3,
            uuid='GPU-3',
            pci_bus_id='00000000:03:00.0',
            type='NVIDIA H100',
            status='in_use',
            utilization_percent=29.0,
            memory_total_bytes=85_899_345_920,
            memory_used_bytes=1_000_000_000,
            memory_free_bytes=80_000_000_000,
            temperature_celsius=41.0,
            sm_clock_hertz=1_980_000_000,
            power_watts=120.5,
            power_limit_watts=700.0,
            processes=(),
        ),
    )


def test_what_is_not_exported_is_unknown():
    assert of_one_host(sample(index='0')) == (GpuReport(key='index:0', number=0),)


@pytest.mark.parametrize('value', [None, -0.5, 1.5])
def test_an_impossible_utilization_is_unknown(value):
    (report,) = of_one_host(gpu('0'), utilization_ratio=[sample(value, index='0')])
    assert report.utilization_percent is None


@pytest.mark.parametrize('value', [None, -1.0, 1e300])
def test_an_impossible_size_is_unknown(value):
    (report,) = of_one_host(gpu('0'), memory_used=[sample(value, index='0')], sm_clock=[sample(value, index='0')])
    assert (report.memory_used_bytes, report.sm_clock_hertz) == (None, None)


def test_gpus_are_in_the_order_of_their_numbers():
    assert [report.number for report in of_one_host(gpu('10'), gpu('9'), gpu('0'))] == [0, 9, 10]


def test_gpus_of_several_vendors_come_vendor_by_vendor():
    listed = of_one_host(
        gpu('intel:0'),
        gpu('amd:1'),
        gpu('amd:0'),
        gpu('0'),
        sample(index='made_up:0'),
        memory_used=[sample(5e9, index='amd:0'), sample(6e9, index='0')],
    )
    assert [(report.vendor, report.number, report.memory_used_bytes) for report in listed] == [
        (None, 0, 6_000_000_000),
        ('amd', 0, 5_000_000_000),
        ('amd', 1, None),
        ('intel', 0, None),
        ('made_up', 0, None),
    ]
    assert listed[-1].key == 'index:made_up:0'


@pytest.mark.parametrize(
    'index',
    [
        'AMD:0',
        'amd:',
        'amd:x',
        ':0',
        'a' * 21 + ':0',
        '',
        'None',
        '-1',
        '1:',
        ':1',
        '1:2:3',
        '\uff11',
        '9' * 50,
        '0x1',
        '1 ',
    ],
)
def test_a_gpu_without_a_number_is_left_out(index):
    (report,) = of_one_host(gpu('0'), sample(index=index, uuid='GPU-9'))
    assert report.number == 0


def test_of_two_gpus_with_one_number_the_first_is_shown():
    assert [report.uuid for report in of_one_host(gpu('0'), gpu('0', uuid='GPU-other'))] == ['GPU-0']


def test_two_gpus_with_one_uuid_have_keys_of_their_own():
    assert [report.key for report in of_one_host(gpu('0', uuid='GPU-0'), gpu('1', uuid='GPU-0'))] == [
        'GPU-0',
        'GPU-0 (2)',
    ]


def test_mig_devices_stand_with_their_gpu():
    (report,) = of_one_host(
        gpu('0:2', uuid='MIG-2'),
        gpu('0'),
        gpu('0:1', uuid='MIG-1'),
        statuses=[
            sample(index='0', status='split'),
            sample(index='0:1', status='free'),
            sample(index='0:2', status='claimed'),
        ],
        memory_used=[sample(5e9, index='0:2')],
    )
    assert (report.number, report.status) == (0, 'split')
    assert [(part.key, part.number, part.status, part.memory_used_bytes) for part in report.mig_devices] == [
        ('MIG-1', 1, 'free', None),
        ('MIG-2', 2, 'claimed', 5_000_000_000),
    ]


def test_mig_devices_without_their_gpu_tell_that_it_is_split():
    (report,) = of_one_host(gpu('0:1', uuid='MIG-1'))
    assert (report.key, report.number, report.status) == ('index:0', 0, 'split')
    assert [part.key for part in report.mig_devices] == ['MIG-1']


def test_a_gpu_in_mig_mode_may_be_without_mig_devices():
    (report,) = of_one_host(gpu('0'), statuses=[sample(index='0', status='split')])
    assert report.mig_devices == ()


def test_a_status_that_nobody_knows_is_unknown():
    (report,) = of_one_host(gpu('0'), statuses=[sample(index='0', status='<b>free</b>')])
    assert report.status == 'unknown'


def test_hosts_are_kept_apart():
    found = dict(
        gpus_by_target(
            answers(
                gpu('0'),
                gpu('0', NODE02),
                gpu('0', Target('other', 'node01:1080')),
                temperature=[sample(40.0, index='0'), sample(50.0, NODE02, index='0')],
            )
        )
    )
    assert {target: reports[0].temperature_celsius for target, reports in found.items()} == {
        NODE01: 40.0,
        NODE02: 50.0,
        Target('other', 'node01:1080'): None,
    }


def test_figures_of_a_gpu_that_nobody_knows_are_left_out():
    assert list(gpus_by_target(answers(temperature=[sample(40.0, index='0')]))) == []


def test_without_processes_exported_they_are_unknown():
    (report,) = of_one_host(gpu('0'), processes=[sample(2.0, index='0')])
    assert report.processes is None


def test_processes_are_shown_where_they_are_exported():
    (report,) = of_one_host(
        gpu('0'),
        by_pid=[
            sample(3e10, index='0', pid='4242', program='train.py', user='alice'),
            sample(None, index='0', pid='17', program=''),
            sample(1.0, index='0', pid='<script>'),
            sample(1.0, index='0'),
        ],
        by_user=[sample(1.0, index='0', user='alice')],
    )
    assert report.processes == (
        ProcessReport(4242, user='alice', program='train.py', memory_bytes=30_000_000_000),
        ProcessReport(17),
    )


def test_users_are_shown_where_only_they_are_exported():
    (report,) = of_one_host(
        gpu('0'),
        by_user=[
            sample(2.0, index='0', user='alice'),
            sample(1.0, index='0', user='?'),
            sample(None, index='0', user='bob'),
            sample(-3.0, index='0', user='carol'),
        ],
    )
    assert report.processes == (
        ProcessReport(None, user='alice'),
        ProcessReport(None, user='alice'),
        ProcessReport(None),
    )


def test_no_more_processes_are_shown_than_people_can_read():
    (report,) = of_one_host(gpu('0'), by_user=[sample(1e300, index='0', user='alice')])
    assert len(report.processes) == 1000
    (report,) = of_one_host(gpu('0'), by_pid=[sample(1.0, index='0', pid=str(pid)) for pid in range(2000)])
    assert len(report.processes) == 1000


def test_no_host_has_more_gpus_than_a_page_can_show():
    assert len(of_one_host(*(gpu(str(index)) for index in range(2000)))) == 1024


def test_names_are_cut():
    (report,) = of_one_host(gpu('0', model='H' * 1000))
    assert report.type == 'H' * 199 + '…'
