"""The kernels that graphs have launched, from what the kernel's part keeps of graphs."""

from __future__ import annotations

from gpu_tracker.cuda_probe.engine.graph_launches import GraphLaunches, Launches
from gpu_tracker.cuda_probe.engine.kernel_layout import GRAPH, GRAPH_KEY, GRAPH_NODE, NODES

AXPY, GEMM, PLAIN = 0x1000, 0x2000, 0x3000
PROCESS, OTHER = 7, 8
KERNEL, CHILD = 0, 1


class Map(dict[bytes, bytes]):
    """Stands in for a map of the kernel."""

    def remove(self, key: bytes) -> None:
        self.pop(key, None)


class Kernel:
    """Graphs as the kernel's part keeps them."""

    def __init__(self) -> None:
        self.maps = {'graphs': Map(), 'graph_nodes': Map()}
        self.launches = GraphLaunches(self.maps)

    def graph(self, number: int, launches: int = 0, *, begins_with: int = 0, handles: int = 1, **more: int) -> None:
        value = GRAPH.pack(
            0, 0, launches, more.get('process', PROCESS), begins_with, handles, more.get('captured', 0), 0
        )
        self.maps['graphs'][GRAPH_KEY.pack(number)] = value

    def nodes(self, graph: int, address: int, count: int, threads: int = 0, kind: int = KERNEL) -> None:
        self.maps['graph_nodes'][GRAPH_NODE.pack(address, graph, kind)] = NODES.pack(count, threads)

    @property
    def kept(self) -> tuple[set[int], set[int]]:
        """The graphs that still take room, and those of the nodes that do."""
        graphs = {GRAPH_KEY.unpack(key)[0] for key in self.maps['graphs']}
        return graphs, {GRAPH_NODE.unpack(key)[1] for key in self.maps['graph_nodes']}


def test_each_kernel_counts_as_often_as_it_is_in_a_launched_graph() -> None:
    kernel = Kernel()
    kernel.graph(1, launches=10)
    kernel.nodes(1, AXPY, 3, 600)
    kernel.nodes(1, GEMM, 1, 50)
    kernel.graph(2)
    kernel.nodes(2, PLAIN, 9, 9)
    assert kernel.launches.by_kernel() == {(PROCESS, AXPY): Launches(30, 6000), (PROCESS, GEMM): Launches(10, 500)}


def test_a_graph_has_what_it_began_with_and_what_is_in_its_children() -> None:
    kernel = Kernel()
    kernel.graph(1)
    kernel.nodes(1, AXPY, 2, 20)
    kernel.graph(2, begins_with=1)
    kernel.nodes(2, GEMM, 1, 5)
    kernel.graph(3, launches=4)
    kernel.nodes(3, 2, 3, kind=CHILD)
    kernel.nodes(3, 1, 1, kind=CHILD)
    kernel.nodes(3, AXPY, 1, 1)
    # In it: three times 2, which is 1 and a gemm, and 1 once more.
    assert kernel.launches.by_kernel() == {
        (PROCESS, AXPY): Launches(4 * (3 * 2 + 2 + 1), 4 * (3 * 20 + 20 + 1)),
        (PROCESS, GEMM): Launches(4 * 3, 4 * 15),
    }


def test_graphs_that_are_gone_give_their_room_back_and_keep_their_launches() -> None:
    kernel = Kernel()
    kernel.graph(1, launches=10, handles=0)
    kernel.nodes(1, AXPY, 3, 600)
    kernel.graph(2, launches=1, begins_with=1, handles=0)
    kernel.graph(3, handles=0, captured=1)
    kernel.nodes(3, GEMM, 1, 1)
    before = kernel.launches.by_kernel()
    kernel.launches.free()
    assert kernel.kept == ({3}, {3})
    assert kernel.launches.by_kernel() == before == {(PROCESS, AXPY): Launches(33, 6600)}


def test_a_graph_that_another_one_holds_stays() -> None:
    kernel = Kernel()
    for number in (1, 2, 4):
        kernel.graph(number, handles=0)
        kernel.nodes(number, AXPY, 1, 1)
    kernel.graph(3, launches=2, begins_with=1)
    kernel.nodes(3, 2, 1, kind=CHILD)
    kernel.launches.free()
    assert kernel.kept == ({1, 2, 3}, {1, 2, 3})
    assert kernel.launches.by_kernel() == {(PROCESS, AXPY): Launches(4, 4)}


def test_graphs_of_program_runs_that_have_ended_are_forgotten() -> None:
    kernel = Kernel()
    kernel.graph(1, launches=1, process=OTHER)
    kernel.nodes(1, AXPY, 1, 1)
    kernel.graph(2, launches=1, process=OTHER, handles=0)
    kernel.nodes(2, AXPY, 1, 1)
    kernel.graph(3, launches=1)
    kernel.nodes(3, AXPY, 1, 1)
    kernel.launches.free()
    kernel.launches.forget({OTHER})
    assert kernel.launches.by_kernel() == {(PROCESS, AXPY): Launches(1, 1)}
    assert kernel.kept == ({3}, {3})


def test_graphs_that_claim_to_hold_each_other_do_no_harm() -> None:
    kernel = Kernel()
    kernel.graph(1, launches=1, begins_with=2)
    kernel.graph(2, begins_with=1)
    kernel.nodes(2, AXPY, 1, 1)
    assert kernel.launches.by_kernel() == {(PROCESS, AXPY): Launches(1, 1)}


def test_a_long_chain_of_graphs_is_followed_to_its_end() -> None:
    kernel = Kernel()
    for number in range(1, 4001):
        kernel.graph(number, begins_with=number - 1, launches=int(number == 4000))
        kernel.nodes(number, AXPY, 1, 2)
    assert kernel.launches.by_kernel() == {(PROCESS, AXPY): Launches(4000, 8000)}
