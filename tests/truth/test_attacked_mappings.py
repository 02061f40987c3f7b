"""Memory that resident sizes count twice or not at all, against physical pages."""

from __future__ import annotations

import contextlib
import fcntl
import subprocess
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from support.programs import need_program
from support.truth import need_root, tracked
from support.truth.figures import wrong_ram

if TYPE_CHECKING:
    from collections.abc import Iterator

TRACKER = "gput.Tracker(sleep_time=float(sys.argv[1]), ram_unit='bytes', time_unit='seconds')"
intervals = pytest.mark.parametrize('interval', [1, 0.1])
_HUGE_PAGES = '/proc/sys/vm/nr_hugepages'
_NEEDED = 64


@pytest.fixture(autouse=True)
def _root() -> None:
    need_root()


@pytest.fixture(scope='module')
def sharer(tmp_path_factory: pytest.TempPathFactory) -> str:
    need_program('cc')
    path = str(tmp_path_factory.mktemp('sharer') / 'sharer')
    source = Path(__file__).parents[1] / 'support' / 'truth' / 'sharer.c'
    subprocess.run(['cc', '-std=gnu11', '-O1', '-Wall', '-Wextra', '-Werror', '-o', path, str(source)], check=True)
    return path


@intervals
def test_two_descendants_in_one_address_space_have_its_memory_once(sharer: str, interval: float) -> None:
    run = tracked(
        f"""
        with {TRACKER} as tracker:
            process = subprocess.Popen([sys.argv[2], '300'], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
            truth = frames([process.pid, int(process.stdout.readline())])
            settle(tracker, {interval})
            process.communicate()
        report(tracker, truth=truth)
        """,
        interval,
        sharer,
    )
    assert 300_000_000 < run['truth']['descendants'] < 310_000_000
    assert wrong_ram(run, run['truth'], groups=('descendants', 'combined'), is_seen=True) == []


@intervals
def test_a_descendant_in_the_address_space_of_main_adds_nothing(sharer: str, interval: float) -> None:
    run = tracked(
        f"""
        process = subprocess.Popen([sys.argv[2], '300'], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        clone = int(process.stdout.readline())
        tracker = gput.Tracker(float(sys.argv[1]), 'bytes', time_unit='seconds', process_id=process.pid)
        with tracker:
            truth = union_of_frames([process.pid, clone])
            settle(tracker, {interval})
        process.communicate()
        report(tracker, truth=truth)
        """,
        interval,
        sharer,
    )
    truth = dict.fromkeys(('main', 'combined'), run['truth'])
    # That the descendant has this memory as well may be said, or not.
    assert wrong_ram(run, truth, groups=('main', 'combined'), is_seen=True) == []


def assert_once_or_twice(run: dict[str, object], group: str) -> None:
    """Fail if the 300 MB that one process has mapped twice count more often than in its own resident size."""
    truth = run['truth']
    more = {'main': 0, 'descendants': 0, 'combined': 300_000_000, group: 300_000_000}
    highest = {name: size + more[name] for name, size in truth.items()}
    assert wrong_ram(run, truth, highest, is_seen=True) == []


@intervals
def test_a_descendant_that_has_mapped_a_memfd_twice_has_it_as_often_as_for_the_kernel(interval: float) -> None:
    run = tracked(
        f"""
        wait, let_go = gate()
        hear, tell = pipe()
        def work():
            handle = os.memfd_create('block')
            os.truncate(handle, 300 * MEGABYTE)
            blocks = [mmap.mmap(handle, 0), mmap.mmap(handle, 0)]
            for block in blocks:
                write(block)
            tell()
            wait()
        with {TRACKER} as tracker:
            pid = child(work)
            hear()
            truth = frames([pid])
            settle(tracker, {interval})
            let_go()
            os.waitpid(pid, 0)
        report(tracker, truth=truth)
        """,
        interval,
    )
    assert 300_000_000 < run['truth']['descendants'] < 330_000_000
    assert_once_or_twice(run, 'descendants')


@intervals
def test_main_that_has_mapped_a_memfd_twice_has_it_as_often_as_for_the_kernel_beside_a_descendant(
    interval: float,
) -> None:
    run = tracked(
        f"""
        wait, let_go = gate()
        with {TRACKER} as tracker:
            pid = child(wait)
            handle = os.memfd_create('block')
            os.truncate(handle, 300 * MEGABYTE)
            blocks = [mmap.mmap(handle, 0), mmap.mmap(handle, 0)]
            for block in blocks:
                write(block)
            truth = frames([pid])
            settle(tracker, {interval})
            let_go()
            os.waitpid(pid, 0)
        report(tracker, truth=truth)
        """,
        interval,
    )
    assert_once_or_twice(run, 'main')


@pytest.fixture
def huge_pages() -> Iterator[None]:
    """Have the kernel set huge pages aside."""
    lock_path = f'{tempfile.gettempdir()}/gpu-tracker-tests.huge-pages'
    with open(lock_path, 'w', encoding='ascii') as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # tests that run at the same time have pages of their own
        before = int(Path(_HUGE_PAGES).read_text(encoding='ascii'))
        with contextlib.suppress(OSError):  # what it could not set aside is noticed below
            Path(_HUGE_PAGES).write_text(str(before + _NEEDED), encoding='ascii')
        try:
            if int(Path(_HUGE_PAGES).read_text(encoding='ascii')) < before + _NEEDED:
                pytest.skip(f'this machine has no room for {_NEEDED} huge pages')
            yield
        finally:
            Path(_HUGE_PAGES).write_text(str(before), encoding='ascii')


@intervals
@pytest.mark.usefixtures('huge_pages')
def test_huge_pages_of_a_descendant_count(interval: float) -> None:
    run = tracked(
        f"""
        wait, let_go = gate()
        hear, tell = pipe()
        def work():
            block = huge_pages(48 * HUGE_PAGE)
            write(block)
            tell()
            wait()
        with {TRACKER} as tracker:
            pid = child(work)
            hear()
            truth = frames([pid])
            settle(tracker, {interval})
            let_go()
            os.waitpid(pid, 0)
        report(tracker, truth=truth)
        """,
        interval,
    )
    assert run['truth']['descendants'] > 100_000_000
    assert wrong_ram(run, run['truth'], groups=('descendants', 'combined'), is_seen=True) == []


@intervals
@pytest.mark.usefixtures('huge_pages')
def test_huge_pages_that_main_shares_with_descendants_count_once(interval: float) -> None:
    run = tracked(
        f"""
        block = huge_pages(48 * HUGE_PAGE, sharing=True)
        write(block)
        wait, let_go = gate()
        hear, tell = pipe()
        with {TRACKER} as tracker:
            children = [child(lambda: (write(block), tell(), wait())) for _ in range(2)]
            for _ in children:
                hear()
            truth = frames(children)
            settle(tracker, {interval})
            let_go()
            for pid in children:
                os.waitpid(pid, 0)
        report(tracker, truth=truth)
        """,
        interval,
    )
    assert run['truth']['descendants'] > 100_000_000
    assert wrong_ram(run, run['truth'], is_seen=True) == []
