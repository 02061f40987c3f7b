"""Stands for torchrun: takes the options of the recipe, and starts ranks with the variables that the real one sets.

The real one is too large to install for that. The names are those of torchrun's documentation, "Environment Variables".
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import uuid


def main() -> int:
    """Start all ranks, wait for them, and return 1 where one has failed."""
    parser = argparse.ArgumentParser(allow_abbrev=False)
    parser.add_argument('--standalone', action='store_true', required=True)
    parser.add_argument('--nproc-per-node', type=int, required=True)
    parser.add_argument('--no-python', action='store_true', required=True)
    parser.add_argument('command', nargs=argparse.REMAINDER)
    options = parser.parse_args()
    size = options.nproc_per_node
    of_all = {
        'GROUP_RANK': 0,
        'GROUP_WORLD_SIZE': 1,
        'LOCAL_WORLD_SIZE': size,
        'MASTER_ADDR': 'localhost',
        'MASTER_PORT': 29500,
        'ROLE_NAME': 'default',
        'ROLE_WORLD_SIZE': size,
        'TORCHELASTIC_MAX_RESTARTS': 0,
        'TORCHELASTIC_RESTART_COUNT': 0,
        'TORCHELASTIC_RUN_ID': uuid.uuid4(),
        'WORLD_SIZE': size,
    }
    ranks = []
    for rank in range(size):
        own = of_all | dict.fromkeys(['LOCAL_RANK', 'RANK', 'ROLE_RANK'], rank)
        variables = {name: str(value) for name, value in own.items()}
        ranks.append(subprocess.Popen(options.command, env=os.environ | variables))
    codes = [rank.wait() for rank in ranks]
    return int(any(codes))


if __name__ == '__main__':
    sys.exit(main())
