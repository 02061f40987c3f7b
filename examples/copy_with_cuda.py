"""Copy 10 MB to a GPU with the CUDA runtime, to see them in gpu-tracker probe.

python examples/copy_with_cuda.py [LIBRARY]: LIBRARY is the CUDA runtime, libcudart.so by default.
"""

from __future__ import annotations

import ctypes
import sys

TO_GPU = 1  # cudaMemcpyHostToDevice

runtime = ctypes.CDLL(sys.argv[1] if len(sys.argv) > 1 else 'libcudart.so')
block = bytes(1_000_000)
n_bytes = ctypes.c_size_t(len(block))
memory = ctypes.c_void_p()


def check(error: int) -> None:
    """End the program if a call of CUDA has failed."""
    if error:
        sys.exit(f'CUDA error {error}')


check(runtime.cudaMalloc(ctypes.byref(memory), n_bytes))
for _ in range(10):
    check(runtime.cudaMemcpy(memory, block, n_bytes, TO_GPU))
check(runtime.cudaFree(memory))
print('copied 10 MB')
