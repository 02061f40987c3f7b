"""What nvidia-smi says of the GPUs of this machine, for the tests that need real ones."""

from __future__ import annotations

import shutil
import subprocess

import pytest


def nvidia_smi(*fields: str) -> list[list[str]]:
    """Return these fields of each GPU, without units; skip the test if there is no nvidia-smi."""
    if shutil.which('nvidia-smi') is None:
        pytest.skip('needs an NVIDIA GPU, and nvidia-smi, from its driver')
    words = ['nvidia-smi', f'--query-gpu={",".join(fields)}', '--format=csv,noheader,nounits']
    printed = subprocess.run(words, check=True, capture_output=True, text=True).stdout
    return [[field.strip() for field in line.split(',')] for line in printed.splitlines()]
