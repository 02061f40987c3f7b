"""What benchmarks stand on: how commands are timed, the stand-in for nvidia-smi, and the files of another revision."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import benchmarks
import pytest
from benchmarks import before
from benchmarks.environments import CHECKOUT, UnavailableError
from benchmarks.peers import BEFORE
from benchmarks.session import FailedError
from benchmarks.timing import timed

from support.compiled import require_compiler
from support.simulated_nvml import Gpu, SimulatedDriver

LONGEST = 60
STAND_IN = Path(benchmarks.__file__).parent / 'nvidia_smi.c'
COMPUTING_CHILD = """
import os, time
if os.fork() == 0:
    while time.process_time() < 0.2:
        pass
    os._exit(0)
os.wait()
print('done')
"""


def test_the_cpu_time_of_a_command_has_that_of_its_children(tmp_path):
    run = timed([sys.executable, '-c', COMPUTING_CHILD], tmp_path, dict(os.environ), LONGEST)
    assert run.output == 'done\n'
    assert run.cpu >= 0.2
    assert run.seconds > 0


def test_a_command_that_fails_has_no_time_but_a_reason(tmp_path):
    with pytest.raises(FailedError, match=r'^the reason$'):
        timed(['sh', '-c', 'echo 5; echo the reason >&2; exit 3'], tmp_path, dict(os.environ), LONGEST)
    with pytest.raises(FailedError, match=r'^ended with 3$'):
        timed(['sh', '-c', 'exit 3'], tmp_path, dict(os.environ), LONGEST)


def test_a_command_that_does_not_end_is_killed_with_its_children(tmp_path):
    fifo = tmp_path / 'fifo'
    os.mkfifo(fifo)
    reader = os.open(fifo, os.O_RDONLY | os.O_NONBLOCK)
    os.set_blocking(reader, True)
    with pytest.raises(FailedError, match=r'^did not end within 0\.5 s$'):
        timed(['sh', '-c', f'echo started > {fifo}; sleep 60 9> {fifo} & wait'], tmp_path, dict(os.environ), 0.5)
    with open(reader, encoding='ascii') as pipe:
        assert pipe.read() in {'started\n', ''}  # its end: nobody has it open any more


def test_the_stand_in_prints_what_nvgpu_reads(tmp_path):
    require_compiler()
    program = str(tmp_path / 'nvidia-smi')
    subprocess.run(['cc', '-Wall', '-Wextra', '-Werror', '-o', program, str(STAND_IN), '-ldl'], check=True)
    driver = SimulatedDriver(tmp_path)
    gpus = [Gpu(uuid=f'GPU-{n}', name='NVIDIA H100', total=81559 * 2**20, used=n * 2**20) for n in (5, 70000)]
    driver.write(gpus=gpus, driver='570.124.06', cuda=12080)

    def printed(*arguments):
        words, variables = [program, *arguments], os.environ | driver.environment()
        return subprocess.run(words, env=variables, check=True, capture_output=True, text=True).stdout

    assert printed('-L') == 'GPU 0: NVIDIA H100 (UUID: GPU-5)\nGPU 1: NVIDIA H100 (UUID: GPU-70000)\n'
    table = printed().splitlines()
    assert {len(line) for line in table[1:]} == {91}
    assert table[2].split() == [
        *('|', 'NVIDIA-SMI', '570.124.06', 'Driver', 'Version:', '570.124.06', 'CUDA', 'Version:', '12.8', '|')
    ]
    assert [table[line].split('|')[2].strip() for line in (9, 13)] == ['5MiB /   81559MiB', '70000MiB /   81559MiB']
    driver.state_file.unlink()
    failed = subprocess.run(
        [program], env=os.environ | driver.environment(), check=False, capture_output=True, text=True
    )
    assert (failed.returncode, failed.stdout) == (2, '')
    assert failed.stderr == 'nvidia-smi: nvmlInit_v2 has failed with 9\n'


def test_files_of_a_revision_are_put_where_it_is_installed_from(tmp_path, monkeypatch):
    if shutil.which('git') is None or not (CHECKOUT / '.git').exists():
        pytest.skip('needs git and a checkout made by it')
    monkeypatch.setattr(type(BEFORE), 'folder', tmp_path / 'before')
    name = before.put_files_there('HEAD')
    assert re.fullmatch('[0-9a-f]{4,}', name)
    assert (tmp_path / 'before' / 'pyproject.toml').is_file()
    with pytest.raises(UnavailableError, match=r'^no-such-revision is none'):
        before.put_files_there('no-such-revision')
