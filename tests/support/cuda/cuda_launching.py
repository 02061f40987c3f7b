"""Programs that launch kernels through a stand-in runtime, which gives each kernel a handle as the real one does."""

from __future__ import annotations

import contextlib
import subprocess
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

RUNTIME = """
#include <stdio.h>
#include <stdlib.h>

struct size { unsigned x, y, z; };

void **__cudaRegisterFatBinary(void *code) { static void *handle; return &handle; }
void __cudaRegisterFatBinaryEnd(void **handle) {}
void __cudaUnregisterFatBinary(void **handle) {}
void __cudaRegisterVar(void **h, char *a, char *b, const char *c, int d, size_t e, int f, int g) {}
void __cudaRegisterFunction(void **h, const char *f, char *d, const char *n, int l, void *a, void *b, void *c, void *e,
                            int *w) {}
unsigned __cudaPushCallConfiguration(struct size g, struct size b, size_t s, void *t) { return 0; }
int __cudaPopCallConfiguration(struct size *g, struct size *b, size_t *s, void *t) { return 0; }
int __cudaGetKernel(void **handle, const void *function)
{
    *handle = malloc(64);
    printf("%p %p\\n", *handle, function);
    return 0;
}
int __cudaLaunchKernel(void *f, struct size g, struct size b, void **a, size_t s, void *t) { return 0; }
int cudaLaunchKernel(void *f, struct size g, struct size b, void **a, size_t s, void *t) { return 0; }
int cudaDeviceSynchronize(void)
{
    fflush(stdout);
    getchar();
    return 0;
}
"""


class Launched(NamedTuple):
    """One kernel of a running program: the runtime's handle of it, and the address of its function."""

    handle: int
    function: int


def runtime(folder: Path) -> Path:
    """Build the stand-in; programs find it without LD_LIBRARY_PATH."""
    source = folder / 'runtime.c'
    source.write_text(RUNTIME)
    library = folder / 'libruntime.so'
    subprocess.run(['gcc', '-shared', '-fPIC', '-w', '-o', str(library), str(source)], check=True)
    return library


@contextlib.contextmanager
def launching(words: list[str], kernels: int) -> Iterator[tuple[subprocess.Popen[str], list[Launched]]]:
    """Run a program until it waits in its synchronisation, having told of so many kernels; end it by its own end."""
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        told = [process.stdout.readline().split() for _ in range(kernels)]
        yield process, [Launched(*(int(word, 16) for word in line)) for line in told]
        process.communicate('\n')
