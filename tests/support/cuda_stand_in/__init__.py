"""A stand-in for CUDA: a runtime and a driver in C that compute nothing, and a program that knows what it has called.

    ran = stand_in().run('alloc a 1000; launch axpy default 2 1 1 256 1 1; sync default; free a')
    assert ran.truth.device.maximum == 1000

The program performs a script. A line or ``;`` ends a command, ``#`` begins a comment. FIGURES are a grid and a block:
six numbers. STREAM is a name, ``default``, ``legacy``, ``per_thread`` or ``unknown``; KERNEL is axpy, gemm, reduce or
plain.

=================================================  ====================================================================
alloc NAME BYTES, alloc_managed NAME BYTES,        Allocates memory that has this name from then on.
alloc_pitch NAME WIDTH HEIGHT,
alloc_async NAME BYTES STREAM, cu_alloc NAME BYTES
allocs N BYTES, free_all                           Allocates so often, and frees all that this thread has.
free NAME, free_async NAME STREAM, cu_free NAME    Frees it.
alloc_3d NAME WIDTH HEIGHT DEPTH                   With cudaMalloc3D; the width is in bytes.
alloc_array NAME BITS WIDTH HEIGHT, alloc_3d_array Arrays, of two channels of so many bits.
NAME BITS WIDTH HEIGHT DEPTH, free_array NAME
cu_alloc_array NAME CHANNELS WIDTH HEIGHT,         The driver's, of floats.
cu_free_array NAME
alloc_host NAME BYTES, host_alloc NAME BYTES,      Page-locked memory of the host.
free_host NAME
churn N BYTES                                      Allocates and frees so often, as fast as the calls go.
launch KERNEL STREAM FIGURES                       Calls cudaLaunchKernel; with launch_compiled as ``<<<...>>>`` does,
                                                   with launch_handle with what cudaGetKernel gives, with launch_ex
                                                   cudaLaunchKernelExC, with launch_cooperative the function of that
                                                   name, with cu_launch and cu_launch_ex the driver's.
launch_graph STREAM                                Calls cudaGraphLaunch with a graph that nobody has made.
graph NAME, clone NAME GRAPH                       Makes a graph.
node GRAPH KERNEL FIGURES, node_any, node_v2       Adds a kernel, with cudaGraphAddKernelNode, cudaGraphAddNode or
                                                   cudaGraphAddNode_v2.
child GRAPH CHILD, child_any GRAPH CHILD           Adds a graph.
capture STREAM [GRAPH], end_capture STREAM [NAME], What is launched on the stream goes into a graph; with fail_capture
fail_capture STREAM                                it is lost.
instantiate NAME GRAPH, update NAME GRAPH,         Makes an executable graph, changes it, launches it so often.
run NAME STREAM [N]
destroy_graph NAME, destroy_executable NAME        Ends them; the names may be given again.
launches N KERNEL STREAM FIGURES                   Launches so often, as fast as the calls go.
stream NAME, stream_flags, stream_priority,        Makes and ends streams.
destroy_stream NAME
sync STREAM, syncs N STREAM, query_stream STREAM,  Waits for a stream, or asks for it.
cu_sync STREAM
device_sync, device_reset, cu_device_sync,         The whole device; each thread begins with device 0.
set_device N
event NAME, record NAME STREAM, record_flags NAME  Events.
STREAM, query NAME, wait_event NAME, stream_wait
STREAM EVENT, destroy_event NAME
memcpy BYTES, memcpy_async BYTES STREAM            Copies.
fail_alloc, fail_free, fail_launch, free_null      Calls that fail with 2, 1 and 9; and one that does nothing.
default_stream own|shared                          From now on the functions for the thread's own default stream.
pace N                                             From now on so many calls a second in loops; 0: no limit.
repeat N {...}, threads N {...}, fork {...}, reap  Blocks; threads are waited for at once, children with reap or at
                                                   the end. A child knows no CUDA from before; its book is its own.
exec {...}                                         The process becomes a fresh one that performs the block.
exit N, crash                                      Ends the process, whatever it still has.
setenv NAME [VALUE], putenv NAME VALUE, unsetenv   Environment.
load [PATH]                                        Loads the runtime, in the program that is built with ``late``.
pause MILLISECONDS                                 Sleeps.
wait                                               Says that all before is done, and waits for :meth:`Running.go_on`.
obey                                               Performs what :meth:`Running.tell` says, until ``go_on``.
=================================================  ====================================================================

In threads the true maximum is known of all commands but ``churn``.
"""

from __future__ import annotations

import functools
import os
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from support.compiled import cache_folder, compiled_once
from support.cuda_stand_in.running import Ran, Running, started
from support.cuda_stand_in.truth import DeviceTruth, KernelTruth, LoopTruth, Truth

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from contextlib import AbstractContextManager

__all__ = ['DeviceTruth', 'KernelTruth', 'LoopTruth', 'Ran', 'Running', 'StandIn', 'Truth', 'stand_in']

_SOURCES = Path(__file__).parent
_RUNTIME = ('libcudart.c', 'compiled.c', 'state.c', 'nesting.c', 'gate.c', 'driver_calls.c')
_DRIVER = ('libcuda.c', 'state.c')
_PLAIN = ('-std=gnu11', '-O1', '-g', '-Wall', '-Wextra', '-Werror')
# Each function has a frame, so it begins as the real ones do: "push" is what the kernel need not step through.
_LIBRARY = (*_PLAIN, '-fPIC', '-fvisibility=hidden', '-fno-omit-frame-pointer', '-fno-shrink-wrap')
_LAST = ('-ldl', '-lpthread')


def _compile(*words: str | Path) -> None:
    subprocess.run(['cc', *map(str, words), *_LAST], check=True)


class StandIn:
    """The libraries and programs in a folder; each is compiled when it is first asked for.

    :param folder: Where they go; a copy of it works elsewhere.
    :param branch_tracking: Whether functions begin with ``endbr64`` in place of ``push``, on x86-64.
    :param version: The runtime's, in the name of its library and in those of its symbols.
    """

    def __init__(self, folder: Path, *, branch_tracking: bool = False, version: int = 12) -> None:
        self.folder = folder
        self._first_instruction = ()
        if os.uname().machine == 'x86_64':
            self._first_instruction = (f'-fcf-protection={"branch" if branch_tracking else "none"}',)
        self._version = version
        self._cache = cache_folder('cuda-stand-in', _SOURCES.rglob('*.[ch]'), *_LIBRARY, *self._first_instruction)

    @functools.cached_property
    def runtime(self) -> Path:
        """The runtime's library, with a version tag on each symbol, as the real one."""
        name = f'libcudart.so.{self._version}'
        script = self.folder / 'symbols'
        script.write_text(f'{name} {{ global: cuda*; __cuda*; local: *; }};\n')
        return self._library(name, _RUNTIME, f'-Wl,--version-script,{script}')

    @functools.cached_property
    def driver(self) -> Path:
        """The driver's library, which is loaded by name by whoever lies beside it."""
        return self._library('libcuda.so.1', _DRIVER, '-DFIRST_ADDRESS=0x7d0000000000')

    @functools.cached_property
    def static_runtime(self) -> Path:
        """The runtime as an archive, to be linked into a program."""

        def make(path: Path) -> None:
            objects = [self.folder / f'{Path(name).stem}.o' for name in _RUNTIME]
            for name, compiled in zip(_RUNTIME, objects, strict=True):
                _compile(*_LIBRARY, *self._first_instruction, '-c', '-o', compiled, _SOURCES / 'library' / name)
            subprocess.run(['ar', 'rcs', str(path), *map(str, objects)], check=True)

        return self._copy('libcudart_static.a', make)

    def program(self, *, static: bool = False, late: bool = False, stripped: bool = False) -> Path:
        """Return the program that performs scripts.

        :param static: The runtime is linked in.
        :param late: The runtime is loaded by the command ``load`` only.
        :param stripped: No symbols are left but those that the dynamic loader needs.
        """
        # The driver lies beside the program, wherever that is: both runtime and program load it by its name.
        assert self.driver.exists()
        return self._programs(static=static, late=late, stripped=stripped)

    def run(
        self,
        script: str,
        *,
        program: Path | None = None,
        words: Sequence[str] = (),
        environment: Mapping[str, str] | None = None,
    ) -> Ran:
        """Perform a script to its end; the parameters are those of :meth:`started`."""
        with self.started(script, program=program, words=words, environment=environment) as running:
            return running.finish()

    def started(
        self,
        script: str,
        *,
        program: Path | None = None,
        words: Sequence[str] = (),
        environment: Mapping[str, str] | None = None,
    ) -> AbstractContextManager[Running]:
        """Start the program with a script; what is left of it afterwards is killed.

        :param program: The program, if not the one that is linked with the runtime's library.
        :param words: What stands before it.
        :param environment: What is added to this process' environment.
        """
        return started([*words, str(program or self.program()), script], environment or {})

    @functools.cache  # noqa: B019 - a stand-in lives as long as the tests
    def _programs(self, *, static: bool, late: bool, stripped: bool) -> Path:
        name = '-'.join(['program', *['static'] * static, *['late'] * late, *['stripped'] * stripped])
        sources = [*sorted((_SOURCES / 'program').glob('*.c')), _SOURCES / 'library' / 'driver_calls.c']
        runtime = [] if late else [self.static_runtime if static else self.runtime]
        if late:
            assert self.runtime.exists()
        kind = [*['-DLATE'] * late, *['-s'] * stripped]
        words = (*_PLAIN, *kind, *sources, *runtime, '-Wl,-rpath,$ORIGIN')
        # the program names the runtime's version
        return self._copy(name, lambda to: _compile(*words, '-o', to), f'{self._version}-{name}')

    def _library(self, name: str, sources: Sequence[str], option: str) -> Path:
        linking = ('-shared', f'-Wl,-soname,{name}', '-Wl,-rpath,$ORIGIN', option)
        paths = [_SOURCES / 'library' / source for source in sources]
        words = (*_LIBRARY, *self._first_instruction, *linking, *paths)
        return self._copy(name, lambda to: _compile(*words, '-o', to))

    def _copy(self, name: str, make: Callable[[Path], None], cached: str | None = None) -> Path:
        """Return this stand-in's own copy of a compiled file: probes of other workers must not meet in one file."""
        return Path(shutil.copy(compiled_once(self._cache / (cached or name), make), self.folder / name))


@functools.cache
def _build_folder(name: str) -> tempfile.TemporaryDirectory[str]:
    """Return a folder that goes when the test session ends."""
    return tempfile.TemporaryDirectory(prefix=f'cuda-stand-in-{name}-')


@functools.cache
def stand_in(*, branch_tracking: bool = False, version: int = 12) -> StandIn:
    """Return the session's own stand-in of that kind."""
    folder = Path(_build_folder(f'{version}-{"endbr64" if branch_tracking else "push"}').name)
    return StandIn(folder, branch_tracking=branch_tracking, version=version)
