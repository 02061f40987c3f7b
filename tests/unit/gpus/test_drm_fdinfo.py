"""What a file of fdinfo says of a DRM client."""

from __future__ import annotations

import pytest

from gpu_tracker.gpus.drm.fdinfo import Client, parse

KIB = 1024


def client(*lines: str, driver: str = 'amdgpu') -> Client:
    found = parse(text(*lines, driver=driver))
    assert found is not None
    return found


def text(*lines: str, driver: str = 'amdgpu') -> bytes:
    about = (f'drm-driver:\t{driver}', 'drm-client-id:\t4', 'drm-pdev:\t0000:03:00.0')
    return '\n'.join(('pos:\t0', 'flags:\t02100002', 'mnt_id:\t24', *about, *lines, '')).encode()


@pytest.mark.parametrize(
    'content',
    [
        b'',
        b'pos:\t0\nflags:\t02\nmnt_id:\t8\nino:\t2083\n',
        b'drm-client-id:\t4\n',
        b'drm-driver:\tamdgpu\ndrm-client-id:\t\n',
        b'\xff\xfe\n',
    ],
    ids=['nothing', 'another file', 'no driver', 'no ID', 'no text'],
)
def test_what_is_no_client(content: bytes) -> None:
    assert parse(content) is None


def test_a_client_is_named_by_its_device_and_its_id() -> None:
    assert client().key == ('0000:03:00.0', '4')
    on_chip = parse(b'drm-driver:\tpanfrost\ndrm-client-id:\t4\ndrm-client-name:\tshell\n')
    assert on_chip is not None
    assert on_chip.key == ('panfrost', '4')


@pytest.mark.parametrize(
    ('value', 'size'),
    [
        ('4096', 4096),
        ('0', 0),
        ('6044 KiB', 6044 * KIB),
        ('12 MiB', 12 * KIB**2),
        ('1 GiB', KIB**3),
        ('\t 8 KiB ', 8 * KIB),
        ('8 kB', None),
        ('-8', None),
        ('many', None),
        ('', None),
    ],
)
def test_sizes_are_bytes_unless_they_have_a_unit(value: str, size: int | None) -> None:
    assert client(f'drm-resident-vram:\t{value}').memory(is_integrated=False) == size


def test_what_is_in_memory_counts_and_never_what_was_asked_for() -> None:
    found = client(
        'drm-total-vram0:\t65072580 KiB', 'drm-shared-vram0:\t16 MiB', 'drm-resident-vram0:\t3 KiB', driver='xe'
    )
    assert found.memory(is_integrated=False) == 3 * KIB
    assert client('drm-total-vram0:\t65072580 KiB', driver='xe').memory(is_integrated=False) is None


def test_a_region_that_stands_there_twice_counts_once() -> None:
    both = client('drm-resident-vram:\t7 KiB', 'drm-memory-vram:\t7 KiB')
    assert both.memory(is_integrated=False) == 7 * KIB
    assert client('drm-memory-vram:\t9 KiB').memory(is_integrated=False) == 9 * KIB


@pytest.mark.parametrize(
    ('regions', 'of_a_card', 'integrated'),
    [
        ({'vram': 100, 'gtt': 20, 'cpu': 3, 'gds': 5, 'doorbell': 6}, 100, 120),
        ({'local0': 100, 'stolen-local0': 10, 'system0': 20}, 110, 130),
        ({'vram0': 100, 'vram1': 50, 'gtt': 20, 'system': 3}, 150, 173),
        ({'system0': 20, 'stolen-system0': 4}, 24, 24),
        ({'gtt': 20, 'system': 3, 'stolen': 1}, 24, 24),
        ({'memory': 7}, 7, 7),
        ({'cpu': 3}, None, None),
        ({}, None, None),
    ],
    ids=['amdgpu', 'i915', 'xe', 'integrated i915', 'integrated xe', 'one region', 'none that it uses', 'none'],
)
def test_regions(regions: dict[str, int], of_a_card: int | None, integrated: int | None) -> None:
    found = client(*(f'drm-resident-{name}:\t{size}' for name, size in regions.items()))
    assert found.memory(is_integrated=False) == of_a_card
    assert found.memory(is_integrated=True) == integrated


def test_engines_in_nanoseconds_and_in_cycles() -> None:
    found = client(
        'drm-engine-render:\t100 ns',
        'drm-engine-video:\t7 ns',
        'drm-engine-capacity-video:\t2',
        'drm-cycles-rcs:\t28257900',
        'drm-total-cycles-rcs:\t7655183225',
        'drm-maxfreq-fragment:\t799999987 Hz',
    )
    assert found.nanoseconds == {'render': 100, 'video': 7}
    assert found.cycles == {'rcs': 28257900}
    assert found.passed == {'rcs': 7655183225}
    assert found.capacity == {'video': 2}


@pytest.mark.parametrize(
    ('driver', 'lines', 'computes'),
    [
        ('amdgpu', ['drm-engine-gfx:\t9 ns'], False),
        ('amdgpu', ['drm-engine-gfx:\t9 ns', 'drm-engine-compute:\t1 ns'], True),
        ('amdgpu', [], False),
        ('i915', ['drm-engine-render:\t9 ns', 'drm-engine-compute:\t0 ns'], False),
        ('i915', ['drm-engine-render:\t9 ns'], True),
        ('xe', ['drm-cycles-rcs:\t9', 'drm-cycles-ccs:\t0'], False),
        ('xe', ['drm-cycles-rcs:\t9', 'drm-cycles-ccs:\t1'], True),
        ('nouveau', [], True),
    ],
    ids=['draws', 'both', 'nothing yet', 'i915 draws', 'i915 cannot tell', 'xe draws', 'xe computes', 'unknown'],
)
def test_whether_a_client_computes(driver: str, lines: list[str], computes: bool) -> None:
    assert client(*lines, driver=driver).computes is computes


def test_a_driver_may_say_last_which_client_it_is() -> None:
    identity = 'drm-pdev:\t0000:03:00.0\ndrm-driver:\tx\ndrm-client-id:\t4'
    about = f'drm-engine-gfx:\t{{}} ns\ndrm-resident-vram:\t7 KiB\n{identity}'
    found = parse(about.format(100).encode())
    assert found is not None
    assert (found.key, found.nanoseconds) == (('0000:03:00.0', '4'), {'gfx': 100})
    assert found.memory(is_integrated=False) == 7 * KIB
