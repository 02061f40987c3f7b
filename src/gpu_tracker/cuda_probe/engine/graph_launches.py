"""The kernels that CUDA graphs have launched: what each graph holds, by how often it was launched."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, TypeVar

from gpu_tracker.cuda_probe.engine.kernel_layout import GRAPH, GRAPH_KEY, GRAPH_NODE, NODES

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from gpu_tracker.cuda_probe.engine.libbpf import KernelMap

Key = TypeVar('Key')
_CHILD_GRAPH_NODE = 1


class Launches(NamedTuple):
    """Launches of a kernel, and the threads of all of them together."""

    times: int
    threads: int


class _Graph(NamedTuple):
    launches: int
    process: int
    begins_with: int
    """The graph that its first nodes are; 0: none."""
    is_used: bool
    """Whether it is captured now, or has a handle by which it can be launched or changed."""
    kernels: dict[int, Launches]
    """Its own nodes, by address."""
    children: dict[int, int]
    """How often it holds another graph, by that one's number."""

    @property
    def parts(self) -> Iterable[tuple[int, int]]:
        """The other graphs that it holds, each with how often."""
        return (*self.children.items(), *([(self.begins_with, 1)] if self.begins_with else ()))


class GraphLaunches:
    """Reads the graphs of all processes, and keeps the launches of those that are gone.

    :param maps: The kernel's.
    """

    def __init__(self, maps: Mapping[str, KernelMap]) -> None:
        self._maps = maps
        self._gone: dict[tuple[int, int], Launches] = {}
        """By program run and the kernel's address."""

    def by_kernel(self) -> dict[tuple[int, int], Launches]:
        """Return the launches by program run and the kernel's address."""
        found = dict(self._gone)
        graphs = self._read()
        _add_launches(found, graphs, graphs)
        return found

    def free(self) -> None:
        """Give back the room of graphs that were destroyed; their launches are kept."""
        graphs = self._read()
        needed: set[int] = set()
        waiting = [number for number, graph in graphs.items() if graph.is_used]
        while waiting:
            number = waiting.pop()
            if number in graphs and number not in needed:
                needed.add(number)
                waiting += (part for part, _ in graphs[number].parts)
        gone = graphs.keys() - needed
        _add_launches(self._gone, graphs, gone)
        self._remove(gone)

    def forget(self, processes: Collection[int]) -> None:
        """Forget the graphs of program runs that have ended."""
        self._gone = {key: launches for key, launches in self._gone.items() if key[0] not in processes}
        self._remove({number for number, graph in self._read().items() if graph.process in processes})

    def _read(self) -> dict[int, _Graph]:
        graphs: dict[int, _Graph] = {}
        for key, value in self._maps['graphs'].items():
            _, _, launches, process, begins_with, handles, is_capturing, _ = GRAPH.unpack(value)
            (number,) = GRAPH_KEY.unpack(key)
            graphs[number] = _Graph(launches, process, begins_with, bool(handles or is_capturing), {}, {})
        for key, value in self._maps['graph_nodes'].items() if graphs else ():
            address, number, kind = GRAPH_NODE.unpack(key)
            nodes = Launches(*NODES.unpack(value))
            graph = graphs.get(number)
            if graph is not None and kind == _CHILD_GRAPH_NODE:
                graph.children[address] = nodes.times
            elif graph is not None:
                graph.kernels[address] = nodes
        return graphs

    def _remove(self, numbers: Collection[int]) -> None:
        if not numbers:
            return
        nodes = self._maps['graph_nodes']
        for key in [key for key, _ in nodes.items() if GRAPH_NODE.unpack(key)[1] in numbers]:
            nodes.remove(key)
        for number in numbers:
            self._maps['graphs'].remove(GRAPH_KEY.pack(number))


def _add_launches(found: dict[tuple[int, int], Launches], graphs: Mapping[int, _Graph], counted: Iterable[int]) -> None:
    """Add what the counted of the graphs have launched."""
    contents: dict[int, dict[int, Launches]] = {}
    for number in counted:
        graph = graphs[number]
        if not graph.launches:
            continue
        for address, nodes in _contents(number, graphs, contents).items():
            _add(found, (graph.process, address), nodes, graph.launches)


def _contents(number: int, graphs: Mapping[int, _Graph], known: dict[int, dict[int, Launches]]) -> dict[int, Launches]:
    """Return the kernels of a graph with those of the graphs in it; nodes are launches of one launch.

    :param known: The contents of graphs by number, to which those that are found are added.
    """
    waiting = [number]
    while waiting:
        graph = graphs[waiting[-1]]
        parts = [(part, times) for part, times in graph.parts if part in graphs]
        missing = next((part for part, _ in parts if part not in known and part not in waiting), None)
        if missing is not None:
            waiting.append(missing)
            continue
        found = dict(graph.kernels)
        for part, times in parts:
            for address, nodes in known.get(part, {}).items():
                _add(found, address, nodes, times)
        known[waiting.pop()] = found
    return known[number]


def _add(found: dict[Key, Launches], key: Key, nodes: Launches, times: int) -> None:
    before = found.get(key, Launches(0, 0))
    found[key] = Launches(before.times + nodes.times * times, before.threads + nodes.threads * times)
