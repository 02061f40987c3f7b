"""Runs the programs of seeds and prints what was found: ``python -m support.random_programs SEED ...``."""

from __future__ import annotations

import sys
import tempfile

from support.random_programs.expect import bounds
from support.random_programs.generate import generate
from support.random_programs.run import run
from support.random_programs.stage import build

with tempfile.TemporaryDirectory() as folder:
    actor = build(folder)
    for seed in map(int, sys.argv[1:]):
        program = generate(seed)
        print(program)
        found = run(program, actor)
        for hold, union in enumerate(found.unions):
            print(f'union of frames at hold {hold}:', {group: f'{size:,}' for group, size in union.items()})
        for bound in bounds(found):
            print('    ' if bound.holds else 'NOT ', bound, sep='')
