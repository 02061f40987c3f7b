from __future__ import annotations

from collections import Counter

from hypothesis import example, given
from hypothesis import strategies as st

from gpu_tracker.resources.ram import smaps
from gpu_tracker.resources.ram.memory_files import rollup

PAGE_KB = 4
MEGABYTE = 1 << 20
ENTRY = """\
{low:x}-{high:x} {permissions} {offset:08x} {device} {inode}                     {name}
Size:                {size} kB
KernelPageSize:        4 kB
MMUPageSize:           4 kB
Rss:                 {size} kB
Pss:                 {pss} kB
Pss_Dirty:             0 kB
Shared_Clean:        {shared_clean} kB
Shared_Dirty:        {shared_dirty} kB
Private_Clean:       0 kB
Private_Dirty:       {private} kB
Referenced:            0 kB
Anonymous:           {anonymous} kB
LazyFree:              0 kB
AnonHugePages:         0 kB
VmFlags: rd wr mr mw me ac
"""
ROLLUP = """\
5581c8e5c000-7ffd3d9f7000 ---p 00000000 00:00 0                          [rollup]
Rss:               10000 kB
Pss:                7000 kB
Pss_Dirty:          5000 kB
Pss_Anon:           4000 kB
Shared_Clean:       4000 kB
Shared_Dirty:        500 kB
Private_Clean:      1000 kB
Private_Dirty:      4500 kB
Referenced:         9000 kB
Anonymous:          4200 kB
"""


def entry(low: int, pages: int, **fields: object) -> str:
    values = {
        'low': low * 4096, 'high': (low + pages) * 4096, 'permissions': 'rw-s', 'offset': 0, 'device': '00:01', 'inode':
        0, 'name': '', 'size': pages * PAGE_KB, 'shared_clean': 0, 'shared_dirty': 0, 'private': 0, 'anonymous': 0,
        'pss': fields.get('private', 0),
    }  # fmt: skip
    return ENTRY.format(**(values | fields))


class Mapping:
    """A process has mapped pages of a file, or has anonymous memory: all of it resident."""

    def __init__(self, owner: int, source: tuple[str, int], first: int, pages: int) -> None:
        self.owner = owner
        self.source = source
        self.numbers = range(first, first + pages)

    @property
    def pages(self) -> list[tuple[tuple[str, int], int]]:
        return [(self.source, number) for number in self.numbers]


def described(mappings: list[Mapping], owner: int) -> bytes:
    """Return what the kernel would say: a page is private where it is mapped exactly once on the whole machine."""
    mapped = Counter(page for mapping in mappings for page in mapping.pages)
    text = ''
    for place, mapping in enumerate(mappings):
        if mapping.owner == owner:
            kind, inode = mapping.source
            private = sum(mapped[page] == 1 for page in mapping.pages) * PAGE_KB
            size = len(mapping.numbers)
            pss = int(sum(PAGE_KB / mapped[page] for page in mapping.pages))
            sizes = {'private': private, 'shared_dirty': size * PAGE_KB - private, 'pss': pss}
            if kind == 'file':
                offset = mapping.numbers.start * 4096
                text += entry(1_000_000 + place * 1000, size, inode=inode, offset=offset, **sizes)
            else:
                text += entry(mapping.numbers.start, size, permissions='rw-p', anonymous=size * PAGE_KB, **sizes)
    return text.encode()


def parsed(mappings: list[Mapping], owner: int) -> smaps.Mappings:
    # Anonymous memory is that of one fork family, which the number of the source stands for.
    families = {mapping.owner: mapping.source for mapping in mappings if mapping.source[0] == 'family'}
    return smaps.parse(described(mappings, owner), families.get(owner, (owner,)))


def said_of(mappings: list[Mapping], root: int | None, descendants: list[int]) -> tuple[int, int]:
    """Return how many bytes are said to be everyone's, and the descendants'."""
    main = None if root is None else parsed(mappings, root)
    others = [parsed(mappings, owner) for owner in descendants]
    of_all, of_descendants = smaps.shared_bytes(main, others)
    private = sum(memory.private for memory in others)
    return (main.private if main else 0) + private + of_all, private + of_descendants


def distinct(mappings: list[Mapping], owners: list[int]) -> int:
    """Return the bytes of the different pages that ``owners`` have."""
    return len({page for mapping in mappings if mapping.owner in owners for page in mapping.pages}) * PAGE_KB * 1024


TWICE_BOTH = ((0, 1, 13), (0, 1, 13), (1, 0, 3), (1, 1, 1))
"""The root and a descendant have each mapped a part of one file twice: owner, first page, pages."""
FILES = st.builds(
    Mapping, st.integers(0, 4), st.tuples(st.just('file'), st.integers(1, 2)), st.integers(0, 20), st.integers(1, 15)
)
PARTS = st.builds(
    lambda owner, inode, part: Mapping(owner, ('file', inode), part * 10, 10),
    st.integers(0, 4),
    st.integers(1, 2),
    st.integers(0, 3),
)
FAMILY = st.builds(
    lambda owner, part: Mapping(owner, ('family', owner % 2), 100 + part * 10, 10), st.integers(0, 4), st.integers(0, 3)
)


@given(st.lists(st.one_of(FILES, FAMILY), max_size=12), st.sets(st.integers(1, 4)), st.booleans())
def test_never_more_than_the_distinct_pages_of_everyone(
    mappings: list[Mapping], descendants: set[int], with_root: bool
) -> None:
    owners = sorted(descendants)
    of_all, of_descendants = said_of(mappings, 0 if with_root else None, owners)
    assert of_all <= distinct(mappings, [0, *owners] if with_root else owners)
    assert of_descendants <= of_all
    if not with_root:
        assert of_descendants == of_all


@given(st.lists(PARTS, max_size=12), st.lists(FAMILY, max_size=8, unique_by=lambda m: (m.owner, m.numbers.start)))
def test_parts_that_are_the_same_or_disjoint_count_exactly(files: list[Mapping], anonymous: list[Mapping]) -> None:
    mappings = files + anonymous
    of_all, of_descendants = said_of(mappings, 0, [1, 2, 3, 4])
    assert of_all == distinct(mappings, [0, 1, 2, 3, 4])
    assert of_descendants == distinct(mappings, [1, 2, 3, 4])


@given(st.lists(st.one_of(FILES, FAMILY), max_size=12))
@example([Mapping(owner, ('file', 1), first, pages) for owner, first, pages in TWICE_BOTH])
def test_never_more_than_the_distinct_pages_of_descendants_where_nobody_outside_has_any(
    mappings: list[Mapping],
) -> None:
    assert said_of(mappings, 0, [1, 2, 3, 4])[1] <= distinct(mappings, [1, 2, 3, 4])


@given(st.lists(st.one_of(FILES, FAMILY), max_size=12), st.integers(0, 4))
def test_of_a_process_alone_never_more_than_its_distinct_pages(mappings: list[Mapping], owner: int) -> None:
    assert said_of(mappings, None, [owner])[1] <= distinct(mappings, [owner])


@given(
    st.integers(1, 40),
    st.lists(st.tuples(st.integers(1, 4), st.integers(0, 39), st.integers(1, 40)), max_size=8),
    st.sampled_from([('file', 1), ('family', 0)]),
)
def test_parts_that_workers_touch_of_what_the_root_has_count_once(
    size: int, touched: list[tuple[int, int, int]], source: tuple[str, int]
) -> None:
    # Each worker has touched some megabytes of what the root has, and nobody else has any of them.
    parts = {worker: set() for worker, _, _ in touched}
    for worker, first, length in touched:
        parts[worker] |= set(range(first, min(first + length, size)))
    mapped = Counter(number for part in parts.values() for number in part)
    of_root, *of_workers = (
        smaps.parse(touched_part(source, size, {number: mapped[number] + 1 for number in part}).encode(), (b'x',))
        for part in (range(size), *parts.values())
    )
    of_all, of_descendants = smaps.shared_bytes(of_root, of_workers)
    assert of_root.private + of_all == size * MEGABYTE
    assert of_descendants == len(mapped) * MEGABYTE


@given(
    st.integers(1, 40),
    st.lists(st.tuples(st.integers(1, 4), st.integers(0, 39), st.integers(1, 40)), min_size=1, max_size=8),
    st.integers(2, 3),
)
def test_parts_that_workers_touch_of_what_the_root_has_several_times(
    size: int, touched: list[tuple[int, int, int]], times: int
) -> None:
    parts = {worker: set() for worker, _, _ in touched}
    for worker, first, length in touched:
        parts[worker] |= set(range(first, min(first + length, size)))
    mapped = Counter(number for part in parts.values() for number in part)
    source = ('file', 1)
    of_root, *of_workers = (
        {number: mapped[number] + times for number in part} for part in (range(size), *parts.values())
    )
    root = smaps.parse(times * touched_part(source, size, of_root).encode(), (b'x',))
    workers = [smaps.parse(touched_part(source, size, part).encode(), (b'x',)) for part in of_workers]
    of_all, of_descendants = smaps.shared_bytes(root, workers)
    assert of_all == size * MEGABYTE
    assert of_descendants <= (len(mapped) + 0.1) * MEGABYTE
    if all(sharers == 1 for sharers in mapped.values()):
        assert of_descendants >= (len(mapped) - 0.1) * MEGABYTE


def touched_part(source: tuple[str, int], length: int, megabytes: dict[int, int]) -> str:
    """Return a mapping of ``length`` megabytes, of which those are there that are named, with how many have them."""
    kind, inode = source
    private = sum(sharers == 1 for sharers in megabytes.values()) * 1024
    size = len(megabytes) * 1024
    sizes = {'private': private, 'shared_dirty': size - private, 'size': size}
    sizes['pss'] = int(sum(1024 / sharers for sharers in megabytes.values()))
    if kind == 'file':
        return entry(100, length * 256, inode=inode, **sizes)
    return entry(100, length * 256, permissions='rw-p', anonymous=size, **sizes)


def test_different_pages_of_one_part_add_up_as_far_as_their_shares_tell() -> None:
    halves = [
        smaps.parse(entry(100, 20, permissions='rw-s', inode=5, shared_dirty=40, pss=20).encode(), ()) for _ in range(4)
    ]
    assert smaps.shared_bytes(None, halves) == (80 * 1024, 80 * 1024)


def test_what_others_outside_have_of_the_roots_pages_is_not_the_descendants() -> None:
    # The root shares 80 kB with processes outside, and 40 kB of them with its child as well.
    root = smaps.parse(entry(100, 20, inode=5, shared_clean=80, pss=30).encode(), ())
    child = smaps.parse(entry(100, 20, inode=5, shared_clean=40, pss=10).encode(), ())
    assert smaps.shared_bytes(root, [child]) == (80 * 1024, 40 * 1024)


def test_what_the_root_shares_with_nobody_outside_its_descendants_have() -> None:
    # The root has 80 kB; two children have touched the halves of it.
    root = smaps.parse(entry(100, 20, inode=5, shared_dirty=80, pss=40).encode(), ())
    halves = [smaps.parse(entry(100, 20, inode=5, shared_dirty=40, pss=20).encode(), ()) for _ in range(2)]
    assert smaps.shared_bytes(root, halves) == (80 * 1024, 80 * 1024)


def test_what_the_root_has_mapped_twice_it_may_share_with_itself() -> None:
    # Of ten pages the root has all, twice, one child has eight and another one two of these.
    root = smaps.parse(2 * entry(100, 10, inode=5, shared_dirty=40, pss=14).encode(), ())
    children = [
        smaps.parse(entry(100, 10, inode=5, shared_dirty=32, pss=10).encode(), ()),
        smaps.parse(entry(100, 10, inode=5, shared_dirty=8, pss=2).encode(), ()),
    ]
    assert smaps.shared_bytes(root, children) == (40 * 1024, 32 * 1024)


def test_parts_of_what_the_root_has_mapped_twice_are_different_where_their_shares_are_large() -> None:
    # Of 9 MB that the root has twice, three children have each a third.
    root = smaps.parse(2 * entry(100, 2304, inode=5, shared_dirty=9216, pss=3072).encode(), ())
    thirds = [smaps.parse(entry(100, 2304, inode=5, shared_dirty=3072, pss=1024).encode(), ()) for _ in range(3)]
    assert smaps.shared_bytes(root, thirds) == (9216 * 1024, 9216 * 1024)


def test_what_only_the_root_has_is_not_its_descendants() -> None:
    root = smaps.parse(entry(100, 20, inode=5, shared_clean=80, pss=40).encode(), ())
    child = smaps.parse(entry(100, 20, inode=6, shared_clean=20, pss=10).encode(), ())
    assert smaps.shared_bytes(root, [child]) == (100 * 1024, 20 * 1024)
    assert smaps.shared_bytes(root, []) == (80 * 1024, 0)


def test_pages_of_a_library_that_were_written_to_belong_to_the_family() -> None:
    # Two programs with a child each: every family has its own copy of what its libraries have changed.
    data = entry(
        100, 50, permissions='rw-p', inode=7, device='08:01', shared_clean=40, shared_dirty=160, anonymous=160
    ).encode()
    families = [smaps.parse(data, (family,)) for family in (b'a', b'a', b'b', b'b')]
    assert smaps.shared_bytes(None, families) == ((40 + 2 * 160) * 1024, (40 + 2 * 160) * 1024)
    assert smaps.shared_bytes(families[0], families[1:]) == ((40 + 2 * 160) * 1024, (40 + 2 * 160) * 1024)
    assert families[0].copied == 160 * 1024
    assert families[0].anonymous == 160 * 1024


def test_branches_of_a_family_have_different_pages_at_one_address() -> None:
    # Two processes and their children have mapped a file each after they were forked, and have written to half of it.
    first, second = (
        entry(
            100, 50, permissions='rw-p', inode=inode, shared_clean=100, shared_dirty=100, anonymous=100, pss=100
        ).encode()
        for inode in (7, 8)
    )
    processes = [smaps.parse(data, (b'family',)) for data in (first, first, second, second)]
    assert smaps.shared_bytes(None, processes) == (400 * 1024, 400 * 1024)


def test_dirty_pages_of_a_file_belong_to_the_file() -> None:
    data = entry(100, 50, permissions='r--p', inode=7, shared_dirty=200).encode()
    families = [smaps.parse(data, (family,)) for family in (b'a', b'b')]
    assert smaps.shared_bytes(None, families) == (200 * 1024, 200 * 1024)
    assert families[0].copied == families[0].anonymous == 0


def test_a_file_that_is_mapped_twice_counts_once_and_is_known_to_be_doubled() -> None:
    twice = entry(100, 50, inode=7, shared_clean=200) + entry(900, 50, inode=7, shared_clean=160)
    process = smaps.parse(twice.encode(), ())
    assert smaps.shared_bytes(process, []) == (200 * 1024, 0)
    assert process.doubled == 160 * 1024
    assert process.resident == 360 * 1024


def huge_entry(low: int, pages: int, *, shared: int = 0, private: int = 0) -> str:
    """Return a mapping of huge pages: nothing of it stands in the usual lines."""
    lines = entry(low, pages, permissions='rw-s', inode=9, device='00:10', size=0, offset=0)
    huge = f'Shared_Hugetlb:      {shared} kB\nPrivate_Hugetlb:     {private} kB\n'
    return lines.replace('VmFlags', huge + 'VmFlags')


def test_huge_pages_count_where_a_process_is_known_to_have_them() -> None:
    text = (entry(100, 5, private=20) + huge_entry(4096, 1024, shared=2048, private=2048)).encode()
    process = smaps.parse(text, (), huge=True)
    assert (process.private, process.anonymous, process.resident) == (2068 << 10, 0, 4116 << 10)
    assert smaps.shared_bytes(process, [process]) == (2048 << 10, 2048 << 10)
    unaware = smaps.parse(text, ())
    assert (unaware.private, unaware.resident) == (20 << 10, 20 << 10)


def test_a_name_with_a_line_like_a_field_changes_nothing() -> None:
    data = entry(100, 5, name='/tmp/Shared_Clean: 7 kB', inode=3, private=20).encode()
    process = smaps.parse(data, ())
    assert process.private == 20 * 1024
    assert smaps.shared_bytes(None, [process]) == (0, 0)


def test_a_process_without_mappings_has_nothing() -> None:
    assert smaps.shared_bytes(None, [smaps.parse(b'', ())]) == (0, 0)
    assert smaps.shared_bytes(None, []) == (0, 0)


def test_sums() -> None:
    assert rollup(ROLLUP.encode()) == (5500 << 10, 4500 << 10, 7000 << 10, 4000 << 10, 4200 << 10, 0)
    assert rollup(b'') is None


def test_sums_with_huge_pages() -> None:
    huge = 'Shared_Hugetlb:      2048 kB\nPrivate_Hugetlb:     4096 kB\n'
    assert rollup((ROLLUP + huge).encode()) == (9596 << 10, 6548 << 10, 11096 << 10, 8096 << 10, 4200 << 10, 6144 << 10)


def test_sums_of_an_old_kernel() -> None:
    text = ''.join(line for line in ROLLUP.splitlines(keepends=True) if not line.startswith(('Pss_', 'Anonymous')))
    assert rollup(text.encode()) == (5500 << 10, 4500 << 10, 7000 << 10, 0, 0, 0)
