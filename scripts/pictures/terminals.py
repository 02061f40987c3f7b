"""Terminals that the documentation's pictures show: the lines after a command, which is run for them in a folder."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

from support.atop.atop_daemon import AtopDaemon
from support.cli_program import PROGRAM, Terminal
from support.cuda_stand_in import stand_in
from support.gpus.gpu_machine import GIB, Machine
from support.idle.idle_monitor import IdleMonitor, device_node, foreign, make_program
from support.own_network import OwnNetwork, OwnTerminals
from support.simulated_nvml import Gpu, Process

CUDA = """alloc weights 800000000; alloc batch 120000000; stream compute
repeat 200 {
  launches 40 gemm compute 1024 1 1 256 1 1; launches 10 axpy compute 4096 1 1 256 1 1; pause 1; sync compute
}
fail_alloc; free batch
"""
"""What the program does with CUDA of which the picture shows the calls."""
EXAMPLE = Path(__file__).resolve().parents[2] / 'examples' / 'train_in_regions.py'
PROGRAMS = """
[defaults]
interval_seconds=1

[gpu-all]
gpus=ALL

[process-fold]
dir=/tmp
cmd=fold --gpu {gpu}
gpus=0

[process-train]
dir=/tmp
cmd=train --resume
gpus=1
"""
"""The configuration of the monitor of idle GPUs."""
SECONDS_OF_A_USER = 4


def prompt(command: str) -> str:
    """Return the line in which a command is typed."""
    return f'\x1b[2m$\x1b[0m {command}'


def probe(folder: Path) -> list[str]:
    """Probe a program that finds a stand-in for CUDA."""
    shutil.copy(stand_in().program(), folder / 'train')
    command = ['sh', '-c', 'stty cols 114 rows 40; exec "$@"', 'sh', *PROGRAM, 'probe', '--', './train', CUDA]
    with contextlib.chdir(folder):
        terminal = Terminal(command, {**os.environ, 'LD_LIBRARY_PATH': str(stand_in().folder), 'LC_ALL': 'C.UTF-8'})
        if terminal.wait() != 0:
            raise SystemExit(terminal.shown)
    lines = terminal.shown.replace('\r', '').splitlines()
    report = lines[next(number for number, line in enumerate(lines) if line.startswith('CUDA calls')) :]
    return [prompt('gpu-tracker probe -- ./train'), '', *report]


def compare(folder: Path) -> list[str]:
    """Compare three runs of a training with three that have larger batches."""
    for number in (1, 2, 3):
        for side, megabytes in (('old', 40), ('new', 120)):
            file = folder / f'{side}-{number}.db'
            words = [*PROGRAM, '-q', f'--tf={file}', '--st=0.05', '-o', os.devnull, sys.executable, str(EXAMPLE)]
            subprocess.run([*words, str(megabytes)], check=True, stdout=subprocess.DEVNULL)
    groups = [
        f'{side}={",".join(str(folder / f"{side}-{number}.db") for number in (1, 2, 3))}' for side in ('old', 'new')
    ]
    shown = subprocess.run([*PROGRAM, 'compare', *groups], check=True, stdout=subprocess.PIPE, text=True).stdout
    typed = 'gpu-tracker compare old=old-1.db,old-2.db,old-3.db new=new-1.db,new-2.db,new-3.db |'
    lines = [line for line in shown.splitlines() if re.search('verdict|total_rss|time', line)]
    return [prompt(typed), '>   grep "verdict\\|total_rss\\|time"', *lines]


def show_regions(recording: Path) -> list[str]:
    """Show the regions of a recording."""
    shown = subprocess.run([*PROGRAM, 'show', str(recording)], check=True, stdout=subprocess.PIPE, text=True).stdout
    lines = shown.splitlines()
    first = next(number for number, line in enumerate(lines) if line.startswith('Region '))
    return [prompt('gpu-tracker show run.db | grep -A 4 Region'), *lines[first : first + 5]]


def atop(folder: Path) -> list[str]:
    """Have atop read the daemon, on a machine with a simulated GPU; lines of its processes are left out."""
    machine = Machine(folder)
    machine.write(gpus=[Gpu(name='NVIDIA A100-SXM4-40GB', total=40 * GIB, used=31 * GIB, util=75, memory_util=40,
                            processes=[Process(os.getpid(), memory=30 * GIB, sm=70, memory_util=35)])])  # fmt: skip
    with OwnNetwork() as network, AtopDaemon(machine, network=network, interval=0.5):
        words = network.words('sh', '-c', 'atop -k 2 2 | cat')
        shown = subprocess.run(words, check=True, stdout=subprocess.PIPE, text=True).stdout
    screen = shown.split('ATOP - ')[-1].split('\n\n')[0]
    return [prompt('atop -k 2'), *f'ATOP - {screen}'.splitlines()]


def idle(folder: Path) -> list[str]:
    """Run two programs on idle GPUs, one of which somebody uses for a while."""
    for name in ('fold', 'train'):
        make_program(folder, name, 'exec sleep 3600')
    with (
        OwnTerminals() as terminals,
        device_node(folder),
        IdleMonitor(folder, PROGRAMS, words=terminals.words()) as monitor,
    ):
        monitor.running('fold')
        monitor.running('train')
        with foreign(monitor.gpus / 'nvidia0'):
            monitor.not_running('fold')
            time.sleep(SECONDS_OF_A_USER)  # what the picture is to show, not a wait for something
        monitor.running('fold')
        log = monitor.log
    return [prompt('gpu-tracker idle -c idle.conf'), *log.splitlines()]
