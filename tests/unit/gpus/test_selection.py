from __future__ import annotations

import pickle

import pytest

from gpu_tracker.errors import GpusUnavailableError, ParameterError
from gpu_tracker.gpus.constraints import ANY
from gpu_tracker.gpus.request import Request
from gpu_tracker.gpus.selection import choose
from support.gpus.brief_gpus import GB, SEEN, claim, gpu, lost, mig, split, used
from support.gpus.gpu_readings import changed

GPUS = [used(0, 1), used(1, 9, SEEN), used(2, 0), lost(3)]


def reasons(choice) -> list[str]:
    return list(choice.error(0).reasons)


def names(gpus, request: Request) -> list[str]:
    return [request.name(gpu) for gpu in choose(gpus, request).chosen]


def test_all_that_are_free_with_most_memory_first() -> None:
    choice = choose(GPUS, Request())
    assert [gpu.label for gpu in choice.chosen] == ['GPU 2', 'GPU 0']
    assert reasons(choice) == [
        'GPU 1 (Model A): 90.0 % of its memory is in use; at most 20 % may be',
        'GPU 3: lost',
    ]
    assert choice.is_enough


def test_at_most_and_exactly() -> None:
    assert names(GPUS, Request(at_most=1)) == ['2']
    assert names(GPUS, Request(at_most=5)) == ['2', '0']
    assert names(GPUS, Request(exactly=1)) == ['2']
    assert choose(GPUS, Request(exactly=2)).is_enough
    assert not choose(GPUS, Request(exactly=3)).is_enough


def test_orders() -> None:
    machine = [
        used(0, 1.5)._replace(),
        gpu(1, power_limit=700.0),
        gpu(2, power_limit=None, memory_total=None, memory_used=None, memory_free=None),
        gpu(3, power_limit=700.0),
    ]
    assert names(machine, Request(order='index')) == ['0', '1', '2', '3']
    assert names(machine, Request(order='free')) == ['1', '3', '0', '2']
    assert names(machine, Request(order='power')) == ['1', '3', '0', '2']
    assert names(machine, Request(order='power', at_most=1)) == ['1']


def test_mig_devices_are_chosen_by_uuid_only() -> None:
    machine = [gpu(0), split(1, mig(0, 'MIG-a'), mig(1, 'MIG-b', memory_used=4 * GB)), split(2)]
    by_index = choose(machine, Request())
    assert [gpu.label for gpu in by_index.chosen] == ['GPU 0']
    assert reasons(by_index) == [
        'GPU 1 (Model A): in MIG mode; its MIG devices are chosen by UUID',
        'GPU 2 (Model A): in MIG mode without MIG devices',
    ]
    by_uuid = choose(machine, Request(by_uuid=True))
    assert [Request(by_uuid=True).name(gpu) for gpu in by_uuid.chosen] == ['GPU-0', 'MIG-a']
    assert reasons(by_uuid) == [
        'GPU 1 MIG 1 (Model A MIG 1g): 80.0 % of its memory is in use; at most 20 % may be',
        'GPU 2 (Model A): in MIG mode without MIG devices',
    ]


def test_mig_devices_stand_where_their_gpu_does_in_every_order() -> None:
    machine = [split(0, mig(0, 'MIG-a'), power_limit=100.0), gpu(1, power_limit=300.0)]
    assert names(machine, Request(by_uuid=True, order='index')) == ['MIG-a', 'GPU-1']
    assert names(machine, Request(by_uuid=True, order='power')) == ['GPU-1', 'MIG-a']
    assert names(machine, Request(by_uuid=True, order='free')) == ['GPU-1', 'MIG-a']


def test_what_is_left_out_is_told() -> None:
    choice = choose(GPUS, Request(exclude=('0', 'GPU-1'), environment={'CUDA_VISIBLE_DEVICES': '2,1'}))
    assert [gpu.label for gpu in choice.chosen] == ['GPU 2']
    assert reasons(choice) == ['GPU 0: excluded', 'GPU 1: excluded', 'GPU 3: left out by CUDA_VISIBLE_DEVICES=2,1']


def test_excluding_a_gpu_excludes_its_mig_devices() -> None:
    machine = [split(0, mig(0, 'MIG-a'), mig(1, 'MIG-b')), gpu(1)]
    assert names(machine, Request(by_uuid=True, exclude=('0',))) == ['GPU-1']
    assert names(machine, Request(by_uuid=True, exclude=('MIG-b',))) == ['GPU-1', 'MIG-a']


def test_mig_devices_are_excluded_by_the_index_that_the_table_shows() -> None:
    machine = [split(0, mig(0, 'MIG-a'), mig(1, 'MIG-b')), gpu(1)]
    assert names(machine, Request(by_uuid=True, exclude=('0:1',))) == ['GPU-1', 'MIG-a']
    for wrong in ('0:2', '1:0', '2:0', '0:', ':0'):
        with pytest.raises(ParameterError, match='exclude must be the index or UUID of a GPU'):
            choose(machine, Request(by_uuid=True, exclude=(wrong,)))


def test_where_only_a_mig_device_is_visible_its_gpu_tells_of_uuids() -> None:
    machine = [split(0, mig(0, 'MIG-a'), mig(1, 'MIG-b')), gpu(1)]
    assert reasons(choose(machine, Request(environment={'CUDA_VISIBLE_DEVICES': 'MIG-b'}))) == [
        'GPU 0 (Model A): in MIG mode; its MIG devices are chosen by UUID',
        'GPU 1: left out by CUDA_VISIBLE_DEVICES=MIG-b',
    ]
    assert names(machine, Request(environment={'CUDA_VISIBLE_DEVICES': 'MIG-b'}, by_uuid=True)) == ['MIG-b']


def test_what_is_excluded_has_to_exist() -> None:
    with pytest.raises(ParameterError) as caught:
        choose(GPUS, Request(exclude=('4',)))
    assert str(caught.value) == "exclude must be the index or UUID of a GPU (indices here: 0, 1, 2, 3), not '4'"


def test_nothing_is_left_to_choose_from() -> None:
    for request, reason in (
        (Request(environment={'CUDA_VISIBLE_DEVICES': ''}), 'left out by CUDA_VISIBLE_DEVICES='),
        (Request(exclude=('0', '1', '2', '3')), 'excluded'),
    ):
        choice = choose(GPUS, request)
        assert choice.chosen == []
        assert reasons(choice) == [f'GPU {number}: {reason}' for number in range(4)]
        assert not choice.is_possible
    assert reasons(choose([], Request())) == [
        'this machine has no GPU with a driver. See "gpu-tracker explain no-gpu-driver".'
    ]


@pytest.mark.parametrize(
    ('machine', 'request_', 'possible'),
    [
        ([used(0, 9)], Request(), True),
        ([used(0, 9)], Request(exactly=2), False),
        ([used(0, 9), gpu(1)], Request(exactly=2), True),
        ([lost(0)], Request(), False),
        ([lost(0), gpu(1, claim=claim('GPU-1'))], Request(), True),
        ([lost(0), gpu(1, claim=claim('GPU-1'))], Request(exactly=2), False),
        ([gpu(0)], Request(ANY._replace(min_free=11 * GB)), False),
        ([used(0, 9)], Request(ANY._replace(min_free=10 * GB, max_used_percent=100)), True),
        ([split(0, mig(0, 'MIG-a'))], Request(), False),
    ],
)
def test_whether_waiting_may_help(machine, request_: Request, possible: bool) -> None:
    assert choose(machine, request_).is_possible is possible


def test_the_error_tells_a_reason_for_each_gpu_and_survives_pickling() -> None:
    error = choose(GPUS, Request(exactly=3)).error(0)
    expected = (
        '2 GPUs are available, not 3\n'
        '  GPU 1 (Model A): 90.0 % of its memory is in use; at most 20 % may be\n'
        '  GPU 3: lost'
    )
    again = pickle.loads(pickle.dumps(error))
    for each in (error, again):
        assert isinstance(each, GpusUnavailableError)
        assert str(each) == expected
        assert each.reasons == ('GPU 1 (Model A): 90.0 % of its memory is in use; at most 20 % may be', 'GPU 3: lost')
    assert str(choose(GPUS[:1], Request(exactly=2)).error(0)) == '1 GPU is available, not 2'
    assert str(choose([lost(0)], Request()).error(0)) == 'no GPU is available\n  GPU 0: lost'


NVIDIA = [gpu(n, vendor='nvidia', uuid=f'GPU-n{n}') for n in range(2)]
AMD = [gpu(n, vendor='amd', uuid=f'GPU-a{n}') for n in range(2)]
LAPTOP = changed(gpu(0, vendor='intel', uuid='intel-0000:00:02.0'), is_integrated=True)
SEVERAL = [*NVIDIA, *AMD, LAPTOP]


@pytest.mark.parametrize(
    ('request_', 'chosen'),
    [
        (Request(), ['0', '1']),
        (Request(by_uuid=True), ['GPU-n0', 'GPU-n1']),
        (Request(brands=('amd',)), ['0', '1']),
        (Request(brands=('amd',), by_uuid=True), ['GPU-a0', 'GPU-a1']),
        (Request(brands=('intel',), by_uuid=True), ['intel-0000:00:02.0']),
        (Request(brands=('drm',)), ['amd:0', 'amd:1', 'intel:0']),
        (Request(brands=('nvidia', 'amd'), exactly=3), ['0', '1', 'amd:0']),
        (Request(exclude=('0',)), ['1']),
        (Request(exclude=('amd:0', '0')), ['1']),
        (Request(brands=('nvidia', 'amd'), exclude=('amd:0', 'GPU-n1')), ['0', 'amd:1']),
        (Request(brands=('drm',), exclude=('intel-0000:00:02.0',)), ['amd:0', 'amd:1']),
        (Request(environment={'ROCR_VISIBLE_DEVICES': '0'}), ['0', '1']),
        (Request(brands=('amd',), environment={'ROCR_VISIBLE_DEVICES': '1'}), ['1']),
        (
            Request(brands=('nvidia', 'amd'), environment={'HIP_VISIBLE_DEVICES': '1'}),
            ['0', '1', 'amd:1'],
        ),
    ],
)
def test_gpus_of_one_vendor_are_chosen_unless_several_are_asked_for(request_: Request, chosen: list[str]) -> None:
    assert names(SEVERAL, request_) == chosen


def test_too_few_of_a_vendor_are_not_made_up_for_by_another() -> None:
    choice = choose(SEVERAL, Request(exactly=3))
    assert (choice.is_enough, choice.is_possible, len(choice.chosen)) == (False, False, 2)
    assert reasons(choose(SEVERAL[2:], Request(brands=('nvidia',)))) == ['this machine has no GPU of NVIDIA']


def test_an_integrated_gpu_is_chosen_only_where_its_vendor_is_asked_for() -> None:
    text = "Intel GPU 0: it shares the system's memory; only a choice of Intel GPUs includes it"
    assert reasons(choose([LAPTOP], Request())) == [text]
    assert names([LAPTOP], Request(brands=('intel',))) == ['0']
    beside = [changed(LAPTOP, number=1), gpu(0, vendor='intel', uuid='intel-1')]
    assert names(beside, Request()) == ['0']


def test_an_index_to_be_excluded_that_no_gpu_has() -> None:
    with pytest.raises(ParameterError) as caught:
        choose(SEVERAL, Request(brands=('nvidia', 'amd'), exclude=('amd:2',)))
    there = '0, 1, amd:0, amd:1, intel:0'
    assert str(caught.value) == f"exclude must be the index or UUID of a GPU (indices here: {there}), not 'amd:2'"
