from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from gpu_tracker.sources import smaps
from gpu_tracker.sources.memory_files import rollup

PAGE_KB = 4
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


def total(mappings: list[Mapping], owners: list[int]) -> tuple[int, int]:
    """Return what is said of a group, and what is true."""
    # Anonymous memory is that of one fork family, which the number of the source stands for.
    families = {mapping.owner: mapping.source for mapping in mappings if mapping.source[0] == 'family'}
    processes = [smaps.parse(described(mappings, owner), families.get(owner, (owner,))) for owner in owners]
    private, shared = smaps.private_and_shared(processes)
    union = {page for mapping in mappings if mapping.owner in owners for page in mapping.pages}
    return private + shared, len(union) * PAGE_KB * 1024


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


@given(st.lists(st.one_of(FILES, FAMILY), max_size=12), st.sets(st.integers(0, 4)))
def test_a_group_never_has_more_than_its_distinct_pages(mappings: list[Mapping], owners: set[int]) -> None:
    said, true = total(mappings, sorted(owners))
    assert said <= true


@given(st.lists(PARTS, max_size=12), st.lists(FAMILY, max_size=8, unique_by=lambda m: (m.owner, m.numbers.start)))
def test_parts_that_are_the_same_or_disjoint_count_exactly(files: list[Mapping], anonymous: list[Mapping]) -> None:
    said, true = total(files + anonymous, list(range(5)))
    assert said == true


def test_different_pages_of_one_part_add_up_as_far_as_their_shares_tell() -> None:
    halves = [entry(100, 20, permissions='rw-s', inode=5, shared_dirty=40, pss=20).encode() for _ in range(4)]
    assert smaps.private_and_shared([smaps.parse(half, ()) for half in halves]) == (0, 80 * 1024)


def test_pages_of_a_library_that_were_written_to_belong_to_the_family() -> None:
    # Two programs with a child each: every family has its own copy of what its libraries have changed.
    data = entry(
        100, 50, permissions='rw-p', inode=7, device='08:01', shared_clean=40, shared_dirty=160, anonymous=160
    ).encode()
    families = [smaps.parse(data, (family,)) for family in (b'a', b'a', b'b', b'b')]
    assert smaps.private_and_shared(families) == (0, (40 + 2 * 160) * 1024)
    assert families[0].copied == 160 * 1024


def test_dirty_pages_of_a_file_belong_to_the_file() -> None:
    data = entry(100, 50, permissions='r--p', inode=7, shared_dirty=200).encode()
    assert smaps.private_and_shared([smaps.parse(data, (family,)) for family in (b'a', b'b')]) == (0, 200 * 1024)


def test_a_name_with_a_line_like_a_field_changes_nothing() -> None:
    data = entry(100, 5, name='/tmp/Shared_Clean: 7 kB', inode=3, private=20).encode()
    assert smaps.private_and_shared([smaps.parse(data, ())]) == (20 * 1024, 0)


def test_sums() -> None:
    assert rollup(ROLLUP.encode()) == (5500 * 1024, 4500 * 1024, 7000 * 1024)
    assert rollup(b'') is None
    assert smaps.private_and_shared([smaps.parse(b'', ())]) == (0, 0)
