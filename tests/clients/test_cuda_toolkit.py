"""Programs that NVIDIA's compiler has built, on the machine's toolkit or on the wheels of .venv-cuda."""

from __future__ import annotations

import os
import subprocess
from typing import TYPE_CHECKING

from support.cuda.cuda_toolkit import toolkit
from support.cuda_stand_in import stand_in

if TYPE_CHECKING:
    from pathlib import Path

SOURCE = """
__global__ void axpy(float a, float *x) { x[threadIdx.x] += a; }

int main()
{
    float *x;
    cudaError_t error = cudaMalloc(&x, 1000);
    if (error)
        return error;
    axpy<<<2, 32>>>(1.0f, x);
    cudaFree(x);
    return cudaDeviceSynchronize();
}
"""


def test_a_program_is_built_and_taken_apart_and_runs_on_the_stand_in_as_well(tmp_path: Path) -> None:
    program = toolkit().build(SOURCE, tmp_path, '-cudart=shared')
    listed = subprocess.run([toolkit().cuobjdump, '-elf', program], check=True, capture_output=True, text=True).stdout
    assert '_Z4axpyfPf' in listed
    version = int(toolkit().runtime_library.name.split('.')[2])
    folder = stand_in(version=version).runtime.parent
    on_stand_in = subprocess.run([program], env={**os.environ, 'LD_LIBRARY_PATH': str(folder)}, check=False)
    assert on_stand_in.returncode == 0
