"""Reports of hosts, honest and not."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu_tracker.fleet.hosts.host import HostState, host_as_json
from gpu_tracker.fleet.hosts.nvgpu import parse_nvgpu_report
from gpu_tracker.fleet.hosts.report import ClaimReport, GpuReport, HostReport, ProcessReport, ReportError, parse_report
from gpu_tracker.fleet.hosts.totals import totals_of
from gpu_tracker.gpus.model import GpuHealth

HEALTH = GpuHealth(
    xid_errors=((48, 1), (63, 2)),
    ecc_volatile_corrected=5,
    ecc_volatile_uncorrected=1,
    ecc_aggregate_corrected=50,
    ecc_aggregate_uncorrected=2,
    remapped_rows_corrected=3,
    remapped_rows_uncorrected=1,
    row_remap_pending=True,
    row_remap_failed=False,
    throttle_reasons=('power_cap', 'hardware_thermal'),
    energy_joules=1234.5,
    pcie_sent_bytes=10_000,
    pcie_received_bytes=20_000,
)
FINDINGS = ['XID 48', 'XID 63 (2)', 'ECC errors: 1', 'reset to replace memory row', 'slowed: hot']
GPU = {
    'index': 0,
    'vendor': 'nvidia',
    'uuid': 'GPU-1',
    'pci_bus_id': '00000000:01:00.0',
    'type': 'NVIDIA A100',
    'status': 'in_use',
    'problem': None,
    'utilization_percent': 93.0,
    'memory_total_bytes': 80_000,
    'memory_used_bytes': 20_000,
    'memory_free_bytes': 60_000,
    'temperature_celsius': 64,
    'sm_clock_hertz': 1_410_000_000,
    'power_watts': 300.5,
    'power_limit_watts': 400.0,
    'health': {
        'xid_errors': {'48': 1, '63': 2},
        'ecc_volatile_corrected': 5,
        'ecc_volatile_uncorrected': 1,
        'ecc_aggregate_corrected': 50,
        'ecc_aggregate_uncorrected': 2,
        'remapped_rows_corrected': 3,
        'remapped_rows_uncorrected': 1,
        'row_remap_pending': True,
        'row_remap_failed': False,
        'throttle_reasons': ['power_cap', 'hardware_thermal'],
        'energy_joules': 1234.5,
        'pcie_sent_bytes': 10_000,
        'pcie_received_bytes': 20_000,
        'nvlink_sent_bytes': None,
        'nvlink_received_bytes': None,
    },
    'processes': [
        {
            'pid': 14586,
            'user': 'alice',
            'command': 'python train.py',
            'program': 'train.py',
            'started': 1_700_000_000.5,
            'memory_bytes': 19_000,
            'utilization_percent': 40,
            'computes': True,
        }
    ],
    'claim': {
        'user': 'alice',
        'user_id': 1000,
        'pid': 14586,
        'in_another_container': False,
        'made': 1_700_000_000.0,
        'expires': None,
        'command': 'python train.py',
    },
    'mig_devices': None,
}
ANSWER = {
    'hostname': 'node01',
    'time': 1_700_000_100.0,
    'driver_problem': None,
    'claims_problem': None,
    'gpus': [GPU],
    'age_seconds': 0.4,
    'interval_seconds': 2.0,
    'agent_version': '6.0.0',
}

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda part: st.lists(part, max_size=4) | st.dictionaries(st.sampled_from([*GPU, *ANSWER, 'pid', 'cmd']), part),
    max_leaves=20,
)


def parsed(**changes):
    return parse_report(json.dumps(ANSWER | changes).encode())


def gpu_with(**changes):
    return parsed(gpus=[GPU | changes]).gpus[0]


def test_an_honest_report_is_read_whole():
    assert parsed() == HostReport(
        hostname='node01',
        agent='gpu-tracker 6.0.0',
        gpus=(
            GpuReport(
                key='GPU-1',
                number=0,
                uuid='GPU-1',
                vendor='nvidia',
                pci_bus_id='00000000:01:00.0',
                type='NVIDIA A100',
                status='in_use',
                problem=None,
                utilization_percent=93.0,
                memory_total_bytes=80_000,
                memory_used_bytes=20_000,
                memory_free_bytes=60_000,
                temperature_celsius=64,
                sm_clock_hertz=1_410_000_000,
                power_watts=300.5,
                power_limit_watts=400.0,
                health=HEALTH,
                processes=(
                    ProcessReport(
                        14586,
                        'alice',
                        'python train.py',
                        'train.py',
                        1_700_000_000.5,
                        19_000,
                        computes=True,
                        utilization_percent=40.0,
                    ),
                ),
                claim=ClaimReport(
                    'alice', 1000, 14586, in_another_container=False, made=1_700_000_000.0, command='python train.py'
                ),
                mig_devices=None,
                running_since=None,
            ),
        ),
        driver_problem=None,
        claims_problem=None,
        age=0.4,
        interval=2.0,
        time=1_700_000_100.0,
    )


def test_what_a_browser_is_told_has_the_keys_of_the_report():
    state = HostState('0', 'first', group='lab', url='https://node01:1080').reported(parsed(), now=1_700_000_100.4)
    assert host_as_json(state) == {
        'id': '0',
        'name': 'first',
        'group': 'lab',
        'url': 'https://node01:1080',
        'state': 'up',
        'error': None,
        'last_seen': None,
        'hostname': 'node01',
        'agent': 'gpu-tracker 6.0.0',
        'driver_problem': None,
        'claims_problem': None,
        'gpus': [
            GPU
            | {
                'key': 'GPU-1',
                'running_since': None,
                'idle_since': None,
                'health': GPU['health'] | {'findings': FINDINGS},
            }
        ],
    }


def test_health_that_is_none_is_not_believed():
    assert gpu_with(health=None).health is None
    assert gpu_with(health=[]).health is None
    health = gpu_with(
        health={
            'xid_errors': {'79': 1, '-1': 5, 'x': 2, '99999': 3, '13': 'many', '١٢': 1},
            'throttle_reasons': ['hardware_thermal', 'because', 7, {}],
            'energy_joules': 'much',
            'row_remap_pending': 1,
            'pcie_sent_bytes': -5,
        }
    ).health
    assert health == GpuHealth(xid_errors=((79, 1),), throttle_reasons=('hardware_thermal',))
    part = GPU | {'uuid': 'MIG-1', 'index': 1}
    assert gpu_with(mig_devices=[part]).mig_devices[0].health is None


def test_mig_devices_are_read_with_their_gpu():
    part = GPU | {'uuid': 'MIG-1', 'index': 1, 'status': 'free'}
    gpu = gpu_with(status='split', mig_devices=[part])
    assert gpu.status == 'split'
    assert [(device.key, device.number, device.status) for device in gpu.mig_devices] == [('MIG-1', 1, 'free')]


def test_a_mig_device_of_a_mig_device_is_left_out():
    deep = GPU
    for _ in range(50):
        deep = GPU | {'mig_devices': [deep]}
    assert gpu_with(mig_devices=[deep]).mig_devices[0].mig_devices is None


def test_gpus_without_uuid_go_by_their_index_and_no_two_have_one_key():
    nameless = GPU | {'uuid': None}
    gpus = parsed(gpus=[nameless, nameless | {'index': 1}, nameless, GPU, GPU, {}]).gpus
    assert [gpu.key for gpu in gpus] == ['index:0', 'index:1', 'index:0 (2)', 'GPU-1', 'GPU-1 (2)', 'index:?']


@pytest.mark.parametrize(
    ('key', 'value'),
    [
        ('utilization_percent', 101),
        ('utilization_percent', -1),
        ('utilization_percent', '5'),
        ('utilization_percent', True),
        ('utilization_percent', float('nan')),
        ('power_watts', float('inf')),
        ('power_watts', 10**400),
        ('temperature_celsius', 1e9),
        ('memory_used_bytes', -1),
        ('memory_used_bytes', 1.5),
        ('memory_total_bytes', 2**80),
        ('type', ['A100']),
        ('problem', 5),
        ('claim', 'alice'),
    ],
)
def test_a_value_that_cannot_be_is_unknown(key, value):
    assert getattr(gpu_with(**{key: value}), key) is None


@pytest.mark.parametrize('status', ['busy', None, 5, ['free'], {}])
def test_a_status_that_there_is_not_is_unknown(status):
    assert gpu_with(status=status).status == 'unknown'


def test_long_texts_are_cut_and_lone_surrogates_replaced():
    report = parsed(hostname='h' * 5000, driver_problem='\ud800')
    assert report.hostname == 'h' * 199 + '…'
    assert report.driver_problem == '?'


def test_texts_of_every_language_stay():
    assert parsed(hostname='ノード').hostname == 'ノード'


@pytest.mark.parametrize(
    ('body', 'reason'),
    [
        (b'', 'the answer is not JSON'),
        (b'<html>', 'the answer is not JSON'),
        (b'\xff\xfe{}', 'the answer is not JSON'),
        (b'[' * 100_000, 'the answer is not JSON'),
        (b'1' * 10_000, 'the answer is not JSON'),
        (b'[]', 'the answer is not a JSON object'),
        (b'{"gpus": []}', 'the answer has no hostname'),
        (b'{"hostname": "", "gpus": []}', 'the answer has no hostname'),
        (b'{"hostname": 5, "gpus": []}', 'the answer has no hostname'),
        (b'{"hostname": "h"}', 'the answer has neither gpus nor driver_problem'),
        (b'{"hostname": "h", "gpus": {}}', 'gpus is not a list of objects'),
        (b'{"hostname": "h", "gpus": [1]}', 'gpus is not a list of objects'),
        (b'{"hostname": "h", "gpus": [{"processes": 5}]}', 'processes is not a list of objects'),
        (b'{"hostname": "h", "gpus": [{"processes": [{}]}]}', 'a process has no pid'),
    ],
)
def test_what_is_no_report_says_what_it_is(body, reason):
    with pytest.raises(ReportError) as caught:
        parse_report(body)
    assert str(caught.value) == reason


@given(json_values)
def test_no_answer_does_more_than_be_refused(value):
    for whole in (value, ANSWER | {'gpus': value}, ANSWER | {'gpus': [value]}, {'hostname': 'h', 'gpus': [value]}):
        body = json.dumps(whole).encode()
        for parse in (parse_report, parse_nvgpu_report):
            try:
                report = parse(body)
            except ReportError:
                continue
            shown = host_as_json(HostState('0', 'n').reported(report, 0.0))
            json.dumps(shown, allow_nan=False, ensure_ascii=False).encode()


def test_braces_in_texts_are_no_objects():
    command = '{[,"\\\\"' * 500
    processes = [{'pid': number, 'command': command} for number in range(500)]
    body = json.dumps({'hostname': 'h', 'gpus': [{'processes': processes}]}).encode()
    assert body.count(b'{') > 200_000
    assert parse_report(body).gpus[0].processes[499].command == command


NVGPU = {
    'type': 'NVIDIA A100-SXM4-40GB',
    'is_available': False,
    'pids': '14586,999999',
    'users': 'root,?',
    'running_since': 'a minute ago',
    'utilization': 5,
    'clock_mhz': 1410,
    'temperature': 64,
    'cmd': 'sleep 100000',
}


def nvgpu_gpu(**changes):
    return parse_nvgpu_report(json.dumps({'hostname': 'vm', 'gpus': [NVGPU | changes]}).encode()).gpus[0]


def test_a_report_of_nvgpu_has_what_nvgpu_tells_and_nothing_else():
    body = json.dumps({'hostname': 'vm', 'gpus': [NVGPU]}).encode()
    assert parse_nvgpu_report(body) == HostReport(
        hostname='vm',
        agent='nvgpu',
        gpus=(
            GpuReport(
                key='index:0',
                number=0,
                type='NVIDIA A100-SXM4-40GB',
                status='in_use',
                utilization_percent=5,
                temperature_celsius=64,
                sm_clock_hertz=1_410_000_000,
                processes=(
                    ProcessReport(14586, user='root', program='sleep 100000', computes=True),
                    ProcessReport(999999, computes=True),
                ),
                running_since='a minute ago',
            ),
        ),
    )


def test_mig_devices_that_our_agents_tell_in_nvgpus_form_are_on_their_gpu():
    rows = [
        NVGPU | {'index': '0', 'memory': {'total': 80, 'used': 10, 'free': 70}},
        NVGPU | {'index': '0:1', 'is_available': True, 'pids': '', 'memory': {'total': 40, 'used': 10, 'free': 30}},
        NVGPU | {'index': '0:2', 'memory': {'total': 40, 'used': 0, 'free': 40}},
        NVGPU | {'index': '1'},
    ]
    report = parse_nvgpu_report(json.dumps({'hostname': 'vm', 'gpus': rows}).encode())
    assert report.agent == 'gpu-tracker'
    split, whole = report.gpus
    assert (split.number, split.status, whole.number, whole.mig_devices) == (0, 'split', 1, None)
    assert [(part.key, part.number, part.status) for part in split.mig_devices] == [
        ('index:0/index:1', 1, 'free'),
        ('index:0/index:2', 2, 'in_use'),
    ]
    assert totals_of([HostState('0', 'vm').reported(report, 0.0)]).memory_total_bytes == 80


@pytest.mark.parametrize('vendor', [7, None, '', 'AMD', 'a b', 'a' * 21, ['amd'], 'é'])
def test_a_vendor_that_cannot_be_is_unknown(vendor):
    (gpu,) = parsed(gpus=[GPU | {'vendor': vendor, 'uuid': None}]).gpus
    assert (gpu.vendor, gpu.key) == (None, 'index:0')


def test_a_gpu_without_a_uuid_is_known_by_its_vendor_and_number():
    gpus = parsed(gpus=[GPU | {'uuid': None}, GPU | {'vendor': 'amd', 'uuid': None}]).gpus
    assert [(gpu.vendor, gpu.key) for gpu in gpus] == [('nvidia', 'index:0'), ('amd', 'index:amd:0')]


@pytest.mark.parametrize('index', ['0:1', '5', 'x', '0:', None, 7, {}, '9' * 5000, '²'])
def test_an_index_that_cannot_be_is_no_reason_to_lose_a_row(index):
    rows = [NVGPU | {'index': index}] * 3
    report = parse_nvgpu_report(json.dumps({'hostname': 'vm', 'gpus': rows}).encode())
    keys = [found.key for gpu in report.gpus for found in (gpu, *(gpu.mig_devices or ()))]
    assert len(set(keys)) == 3


def test_a_free_gpu_of_nvgpu_has_no_process():
    gpu = nvgpu_gpu(is_available=True, pids='', users='', running_since=None, cmd=None)
    assert (gpu.status, gpu.processes, gpu.running_since) == ('free', (), None)


def test_a_gpu_of_nvgpu_that_nobody_can_look_up_is_unseen():
    assert nvgpu_gpu(pids='5,6', users='?,?').status == 'in_use_unseen'


def test_the_memory_of_newer_agents_is_read():
    gpu = nvgpu_gpu(memory={'total': 100, 'free': 60, 'used': 40})
    assert (gpu.memory_total_bytes, gpu.memory_used_bytes, gpu.memory_free_bytes) == (100, 40, 60)
    assert gpu.memory_used_percent == 40.0


@pytest.mark.parametrize('changes', [{'is_available': 'no'}, {'is_available': None}])
def test_a_gpu_of_nvgpu_that_does_not_say_whether_it_is_available_is_unknown(changes):
    assert nvgpu_gpu(**changes).status == 'unknown'


def test_a_pid_of_nvgpu_that_no_process_can_have_is_left_out():
    gpu = nvgpu_gpu(pids=f'{"9" * 3900},7', users='root,alice', cmd='sleep 1')
    assert gpu.processes == (ProcessReport(7, user='alice', program='sleep 1', computes=True),)
