"""Compiles the kernel's part of the probe of CUDA calls when a wheel is built, for both machines that it is made for.

Without clang the wheel is built without it, and ``gpu-tracker probe`` says so.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

FOLDER = os.path.join('src', 'gpu_tracker', 'cuda_probe', 'bpf')
SOURCE = 'probe.bpf.c'
TARGETS = {'x86_64': 'x86', 'aarch64': 'arm64'}
"""The kernel's word for each machine that there is an object for."""


class ProbeHook(BuildHookInterface):
    """Leaves the objects beside their source, from where they go into the wheel."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compile; nothing that goes wrong with it fails the build."""
        del version, build_data
        folder = os.path.join(self.root, FOLDER)
        reason = compile_objects(folder)
        if reason:
            self.app.display_warning(f'gpu-tracker is built without its probe of CUDA calls: {reason}')


def compile_objects(folder: str) -> str | None:
    """Compile the source in the folder for each machine.

    :return: Why there are no objects, in one line; None where there are.
    """
    clang = shutil.which('clang')
    if clang is None:
        reason: str | None = 'there is no clang'
    else:
        reasons = (_compile(clang, folder, machine, word) for machine, word in TARGETS.items())
        reason = next(filter(None, reasons), None)
    if reason:
        remove_objects(folder)  # what an earlier build has left may be of another source
    return reason


def remove_objects(folder: str) -> None:
    """Remove the objects in the folder."""
    for machine in TARGETS:
        try:
            os.remove(object_path(folder, machine))
        except FileNotFoundError:
            pass  # it is as it should be


def object_path(folder: str, machine: str) -> str:
    """Return where the object for a machine lies."""
    return os.path.join(folder, f'probe_{machine}.bpf.o')


def _compile(clang: str, folder: str, machine: str, word: str) -> str | None:
    path = object_path(folder, machine)
    unfinished = f'{path}.{os.getpid()}'  # two wheels may be built here at once
    made_for = ['-target', 'bpf', '-mcpu=v3', f'-D__TARGET_ARCH_{word}']
    # Warnings are for who changes the source; -g is what libbpf reads the maps' types from.
    how = ['-O2', '-g', '-w', '-fdebug-compilation-dir=.']
    command = [clang, *made_for, *how, '-c', SOURCE, '-o', unfinished]
    try:
        done = subprocess.run(
            command,
            check=False,
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            errors='replace',
        )
        if done.returncode == 0:
            os.replace(unfinished, path)
            return None
    except OSError as error:
        return f'clang cannot be run: {error}'
    said = next((line for line in done.stderr.splitlines() if 'error' in line), '')
    return f'clang fails for {machine}: {said.strip() or f"it ends with {done.returncode}"}'
