"""What the files in /proc say of the pages of a process, and pages of files that several processes have."""

from __future__ import annotations

import os
from collections import Counter
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu_tracker.processes.stat import PAGE_SIZE
from gpu_tracker.resources.ram.files import Extent, bytes_of_files, extents_in
from gpu_tracker.resources.ram.pages import MemoryFiles, Pages, parse_pages

if TYPE_CHECKING:
    from pathlib import Path

KB = 1024
ROLLUP = b"""\
5581c8e5c000-7ffd3d9f7000 ---p 00000000 00:00 0                          [rollup]
Rss:               10000 kB
Pss:                7000 kB
Pss_Dirty:          5000 kB
Pss_Anon:           4000 kB
Pss_File:           3000 kB
Pss_Shmem:             0 kB
Shared_Clean:       4000 kB
Shared_Dirty:        500 kB
Private_Clean:      1000 kB
Private_Dirty:      4500 kB
Referenced:         9000 kB
Anonymous:          4200 kB
LazyFree:              0 kB
AnonHugePages:         0 kB
Shared_Hugetlb:     2048 kB
Private_Hugetlb:    4096 kB
Swap:                  0 kB
SwapPss:               7 kB
"""
MAPPING = """\
{start:x}-{end:x} {mode} {offset:08x} {file}                     {name}
Size:                {size} kB
KernelPageSize:        4 kB
MMUPageSize:           4 kB
Rss:                 {rss} kB
Pss:                 {pss} kB
Pss_Dirty:             0 kB
Shared_Clean:        {shared_clean} kB
Shared_Dirty:        {shared_dirty} kB
Private_Clean:       {private_clean} kB
Private_Dirty:       {private_dirty} kB
Referenced:            0 kB
Anonymous:           {anonymous} kB
KSM:                   0 kB
LazyFree:              0 kB
AnonHugePages:         0 kB
ShmemPmdMapped:        0 kB
FilePmdMapped:         0 kB
Shared_Hugetlb:      {shared_huge} kB
Private_Hugetlb:     {private_huge} kB
Swap:                  0 kB
SwapPss:               0 kB
Locked:                0 kB
THPeligible:           0
VmFlags: rd wr mr mw me ac
"""
FIELDS = ('shared_clean', 'shared_dirty', 'private_clean', 'private_dirty', 'anonymous', 'shared_huge', 'private_huge')


def mapping(
    size: int, file: str = '08:01 7', *, mode: str = 'r--p', offset: int = 0, name: str = '/f', **kb: int
) -> str:
    """Return what smaps says of a mapping of ``size`` kB; by default nobody else has its pages."""
    sizes = dict.fromkeys(FIELDS, 0) | kb
    rss = sum([sizes[field] for field in FIELDS[:4]])
    values = {'rss': rss, 'pss': rss} | sizes
    start = 0x7F0000000000
    end = start + size * KB
    return MAPPING.format(start=start, end=end, mode=mode, offset=offset, file=file, name=name, size=size, **values)


def fields(found: Pages | Extent) -> dict[str, object]:
    return {name: getattr(found, name) for name in found.__slots__}


def described(smaps: str) -> list[tuple[object, ...]]:
    """Return file, begin, end, size, share and private bytes of each part of a file."""
    found = extents_in(smaps.encode())
    return [(one.file, one.begin, one.end, one.size, one.share, one.private) for one in found]


def test_the_sums_of_all_mappings() -> None:
    found = fields(parse_pages(ROLLUP))
    assert found == {
        'private': (1000 + 4500 + 4096) * KB,
        'shared': (4000 + 500 + 2048) * KB,
        'anonymous': 4200 * KB,
        'anonymous_share': 4000 * KB,
        'file_share': 3000 * KB,
        'private_huge': 4096 * KB,
        'has_shares': True,
    }
    assert parse_pages(ROLLUP).resident == (10000 + 2048 + 4096) * KB


def test_a_process_that_has_ended_has_no_sums() -> None:
    assert parse_pages(b'') is None


def test_before_linux_5_4_there_are_no_shares_of_anonymous_pages() -> None:
    assert not parse_pages(ROLLUP.replace(b'Pss_Anon:', b'Other:')).has_shares


def test_mappings_of_files_and_of_no_others() -> None:
    library = mapping(80, 'fe:00 260850', offset=0x3000, shared_clean=40, private_clean=20, pss=30)
    heap = mapping(200, '00:00 0', name='[heap]', mode='rw-p', private_dirty=200, anonymous=200)
    segment = mapping(400, '00:01 5', mode='rw-s', name='/dev/shm/s', shared_dirty=300, private_dirty=50, pss=200)
    untouched = mapping(100, '08:01 9')
    assert described(f'{heap}{library}{untouched}{segment}') == [
        ((b'fe:00', b'260850'), 0x3000, 0x3000 + 80 * KB, 60 * KB, 30 * KB, 20 * KB),
        ((b'00:01', b'5'), 0, 400 * KB, 350 * KB, 200 * KB, 50 * KB),
    ]


def test_pages_of_a_library_that_were_written_to_are_anonymous() -> None:
    data = mapping(50, mode='rw-p', shared_clean=10, private_clean=4, private_dirty=20, anonymous=20, pss=29)
    assert described(data) == [((b'08:01', b'7'), 0, 50 * KB, 14 * KB, 9 * KB, 4 * KB)]


def test_shared_huge_pages_belong_to_a_file_and_private_ones_are_in_the_sums_alone() -> None:
    huge = mapping(8192, '00:0f 12', mode='rw-s', name='/anon_hugepage (deleted)', shared_huge=4096, private_huge=2048)
    assert described(huge) == [((b'00:0f', b'12'), 0, 8192 * KB, 4096 * KB, 0, 0)]


def test_a_name_like_a_field_changes_nothing() -> None:
    named = mapping(20, name='/tmp/Rss: 7 kB', private_clean=20)
    assert [extent.size for extent in extents_in(named.encode())] == [20 * KB]


def test_kernels_without_some_fields() -> None:
    older = '\n'.join(
        line for line in mapping(20, private_clean=20).splitlines() if not line.startswith(('KSM', 'Pss_Dirty', 'THP'))
    )
    assert [extent.size for extent in extents_in(f'{older}\n'.encode())] == [20 * KB]


def part(size: int, *, share: int | None = None, private: int = 0, begin: int = 0, length: int = 100) -> Extent:
    """Return a mapping of a part of the same file; nobody else has its pages if nothing else is said."""
    return Extent(
        (b'08:01', b'7'), begin, begin + length, size=size, share=size if share is None else share, private=private
    )


def test_a_part_that_all_have_counts_once() -> None:
    main, children = [part(90, share=30)], [[part(90, share=30)], [part(90, share=30)]]
    assert bytes_of_files(main, children) == (90, 90, 0)


def test_two_parts_of_a_file_and_two_files_add_up() -> None:
    other_file = Extent((b'08:01', b'8'), 0, 100, size=10, share=10, private=10)
    assert bytes_of_files([part(90)], [[part(50, begin=100)]]) == (140, 50, 0)
    assert bytes_of_files([part(90)], [[other_file]]) == (100, 10, 0)
    assert bytes_of_files([part(90), other_file], []) == (100, 0, 0)


def test_different_pages_of_a_segment_add_up() -> None:
    quarters = [[part(20)] for _ in range(4)]
    assert bytes_of_files([], quarters) == (80, 80, 0)


def test_pages_that_outsiders_have_count_whole_in_the_largest_process_alone() -> None:
    assert bytes_of_files([part(80, share=8)], [[part(50, share=5)]]) == (80, 50, 0)


def test_descendants_have_what_main_shares_if_nobody_else_has_it() -> None:
    # Main has 80; two children have touched a half each.
    assert bytes_of_files([part(80, share=40)], [[part(40, share=20)], [part(40, share=20)]]) == (80, 80, 0)
    # They have touched 20 each, and main has 40 alone.
    assert bytes_of_files([part(80, share=60, private=40)], [[part(20, share=10)], [part(20, share=10)]]) == (80, 40, 0)


def test_descendants_have_no_more_than_all_their_pages() -> None:
    assert bytes_of_files([part(80, share=40)], [[part(30, share=15)]]) == (80, 30, 0)


def test_what_a_process_has_mapped_twice_counts_once() -> None:
    assert bytes_of_files([part(100, share=50), part(80, share=40)], []) == (100, 0, 0)
    assert bytes_of_files([], [[part(100, share=50), part(80, share=40)]]) == (100, 100, 0)


def test_what_main_shares_with_itself_is_not_its_descendants() -> None:
    # Main has ten pages twice; two children have the same eight of these.
    children = [[part(80, share=20)], [part(80, share=20)]]
    main = [part(100, share=30), part(100, share=30)]  # 20 / 2 + 80 / 4, twice
    assert bytes_of_files(main, children) == (100, 80, 20)


def test_descendants_may_have_more_of_what_main_has_mapped_twice() -> None:
    main = [part(90, share=30), part(90, share=30)]
    assert bytes_of_files(main, [[part(45, share=15)], [part(45, share=15)]]) == (90, 45, 45)


def test_parts_that_meet_in_one_page_are_mapped_twice_there_alone() -> None:
    assert bytes_of_files([part(90, share=9), part(80, share=8, begin=96)], []) == (166, 0, 0)


def test_no_process_has_files() -> None:
    assert bytes_of_files([], []) == (0, 0, 0)
    assert bytes_of_files([], [[], []]) == (0, 0, 0)


PAGE_KB = 4
STARTS = st.integers(0, 20)
LENGTHS = st.integers(1, 15)
OWNERS = st.integers(0, 4)
"""0 is main; the others are descendants, or strangers."""
ANY_PARTS = st.lists(st.tuples(OWNERS, st.integers(1, 2), STARTS, LENGTHS), max_size=12)
TENTHS = st.lists(st.tuples(OWNERS, st.integers(1, 2), st.integers(0, 3).map(lambda tenth: 10 * tenth), st.just(10)))
Mapped = list[tuple[int, int, int, int]]
"""Owner, inode, first page and pages of mappings whose pages are all resident."""


def smaps_of(mapped: Mapped, owner: int) -> bytes:
    """Return what the kernel would say: a page is private if it is mapped once on the whole machine."""
    counts = Counter((inode, page) for _, inode, first, length in mapped for page in range(first, first + length))
    text = ''
    for other, inode, first, length in mapped:
        if other == owner:
            sharers = [counts[inode, page] for page in range(first, first + length)]
            private = PAGE_KB * sharers.count(1)
            text += mapping(
                PAGE_KB * length,
                f'08:01 {inode}',
                mode='rw-s',
                offset=PAGE_KB * KB * first,
                private_dirty=private,
                shared_dirty=PAGE_KB * length - private,
                pss=int(sum(PAGE_KB / count for count in sharers)),
            )
    return text.encode()


def distinct(mapped: Mapped, owners: set[int]) -> int:
    """Return the bytes of the different pages that ``owners`` have."""
    pages = {(inode, page) for owner, inode, first, length in mapped if owner in owners
             for page in range(first, first + length)}  # fmt: skip
    return PAGE_KB * KB * len(pages)


def counted(mapped: Mapped, descendants: set[int]) -> tuple[int, int]:
    extents = {owner: extents_in(smaps_of(mapped, owner)) for owner in (0, *descendants)}
    return bytes_of_files(extents[0], [extents[owner] for owner in sorted(descendants)])[:2]


@given(ANY_PARTS, st.sets(st.integers(1, 4)))
def test_never_more_than_the_different_pages_of_all(mapped: Mapped, descendants: set[int]) -> None:
    of_all, of_descendants = counted(mapped, descendants)
    assert of_descendants <= of_all <= distinct(mapped, {0, *descendants})
    mains = [one for one in mapped if one[0] == 0]
    assert counted(mains, set()) <= (distinct(mains, {0}), 0)


@given(ANY_PARTS)
def test_never_more_than_the_different_pages_of_descendants_if_no_stranger_has_any(mapped: Mapped) -> None:
    assert counted(mapped, {1, 2, 3, 4})[1] <= distinct(mapped, {1, 2, 3, 4})


@given(TENTHS)
def test_parts_that_are_equal_or_apart_count_exactly(mapped: Mapped) -> None:
    descendants = {1, 2, 3, 4}
    once = list(dict.fromkeys(mapped))
    assert counted(once, descendants) == (distinct(once, {0, *descendants}), distinct(once, descendants))


@given(st.integers(1, 40), st.lists(st.tuples(st.integers(1, 4), st.integers(0, 39), st.integers(1, 40)), max_size=8))
def test_parts_that_workers_have_touched_of_what_main_has_count_once(
    size: int, touched: list[tuple[int, int, int]]
) -> None:
    parts: dict[int, set[int]] = {0: set(range(size))}
    for worker, first, length in touched:
        parts[worker] = parts.get(worker, set()) | set(range(first, min(first + length, size)))
    having = Counter(page for pages in parts.values() for page in pages)
    extents = [
        [part(
            120 * len(pages), share=sum(120 // having[page] for page in pages),
            private=sum(120 for page in pages if having[page] == 1), length=size,
        )]
        for pages in parts.values()
    ]  # fmt: skip
    of_workers = set().union(*[pages for worker, pages in parts.items() if worker])
    assert bytes_of_files(extents[0], extents[1:]) == (120 * size, 120 * len(of_workers), 0)


STATUS = b"""\
Name:\tpython
VmPeak:\t   22000 kB
VmHWM:\t   10400 kB
VmRSS:\t    9200 kB
HugetlbPages:\t    4096 kB
Threads:\t1
"""


@pytest.fixture
def proc(tmp_path: Path) -> Path:
    """Return a folder with the process 10, whose first thread has ended, and the process 20."""
    for folder, content in (('10', b''), ('10/task/10', b''), ('10/task/11', ROLLUP), ('20', ROLLUP)):
        (tmp_path / folder).mkdir(parents=True, exist_ok=True)
        (tmp_path / folder / 'smaps_rollup').write_bytes(content)
    (tmp_path / '20/task/20').mkdir(parents=True)
    return tmp_path


def test_of_a_process_whose_first_thread_has_ended_another_one_is_read(proc: Path) -> None:
    files = MemoryFiles(str(proc))
    assert fields(files.pages(10)) == fields(files.pages(20)) == fields(parse_pages(ROLLUP))
    (proc / '10/statm').write_bytes(b'0 0 0 0 0 0 0\n')
    (proc / '10/task/11/statm').write_bytes(b'9000 2500 1500 1 0 900 0\n')
    assert files.resident(10) == (2500 * PAGE_SIZE, 1500 * PAGE_SIZE)


def test_a_process_that_has_ended_has_no_memory(proc: Path) -> None:
    files = MemoryFiles(str(proc))
    (proc / '20/status').write_bytes(b'Name:\tzombie\nState:\tZ (zombie)\n')
    (proc / '20/smaps').write_bytes(b'')
    assert (files.mark(20), files.extents(20)) == (None, None)
    assert (files.pages(30), files.extents(30), files.mark(30), files.resident(30)) == (None, None, None, (0, 0))


def test_the_mark_and_the_size_without_huge_pages_and_these(proc: Path) -> None:
    (proc / '20/status').write_bytes(STATUS)
    assert MemoryFiles(str(proc)).mark(20) == (10400 * KB, 9200 * KB, 4096 * KB)


@pytest.mark.parametrize('groups', [400, 850])
def test_a_mark_behind_many_groups(proc: Path, groups: int) -> None:
    content = STATUS.replace(b'VmPeak', b'Groups:\t' + b'1234567890 ' * groups + b'\nVmPeak')
    (proc / '20/status').write_bytes(content)
    assert MemoryFiles(str(proc)).mark(20) == (10400 * KB, 9200 * KB, 4096 * KB)


def test_the_own_process_has_more_than_its_files() -> None:
    files = MemoryFiles()
    pages = files.pages(os.getpid())
    assert pages is not None
    assert 0 < pages.anonymous <= pages.resident
    assert pages.anonymous_share <= pages.anonymous


def test_what_may_not_be_read_is_an_error(proc: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> int:
        raise PermissionError

    monkeypatch.setattr('gpu_tracker.real.os.open', refuse)
    files = MemoryFiles(str(proc))
    with pytest.raises(PermissionError):
        files.pages(20)
    with pytest.raises(PermissionError):
        files.extents(20)
    assert files.mark(20) is None
