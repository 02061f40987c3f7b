"""The configuration that is printed for users to begin with."""

from __future__ import annotations

import re

from gpu_tracker.idle.config.idle_settings import GpuSection, Program, Settings
from gpu_tracker.idle.config.key_table import KEYS, template
from support.idle.idle_configuration import ROOT, settings

KEY = re.compile(r'^(#?)([a-z_]+) = ?(.*)$', re.MULTILINE)


def parts():
    """Return kind of section -> the lines of the template from its header to the next."""
    _, *found = re.split(r'^\[(.*)\]$', template(), flags=re.MULTILINE)
    kinds = {'gpu-all': 'gpu-NAME', 'process-all': 'process-NAME'}
    return {kinds.get(name, name): text for name, text in zip(found[::2], found[1::2], strict=True)}


def test_it_can_be_used_as_it_is():
    program = Program('process-all', None, ('nice', '-n', '19', 'sleep', 'infinity'), '/tmp', '/dev/null')
    assert settings(template()) == Settings(10.0, (GpuSection('gpu-all', None, ('nvidia-smi',)),), (program,), None)


def test_it_shows_every_key_in_its_section():
    inherited = {name for _, name, _ in KEY.findall(parts()['defaults'])}
    assert inherited == {key.name for key in KEYS['defaults']}
    for kind, keys in KEYS.items():
        shown = {name for _, name, _ in KEY.findall(parts()[kind])}
        assert shown == {key.name for key in keys if kind == 'defaults' or key.name not in inherited}


def test_it_shows_the_defaults():
    examples = {'ignore_programs': 'nvidia-smi', 'log': '/dev/null', 'env': 'OMP_NUM_THREADS=1', 'user': 'nobody'}
    for kind, keys in KEYS.items():
        shown = {name: value for _, name, value in KEY.findall(parts()[kind])}
        for key in keys:
            if key.name in shown and key.default is not None:
                assert shown[key.name] == examples.get(key.name, key.default)


def test_every_key_has_an_explanation():
    lines = template().splitlines()
    explained = [lines[place - 1] for place, line in enumerate(lines) if KEY.match(line)]
    assert len(explained) == 18
    assert all(line.startswith('# ') for line in explained)


def test_what_is_commented_out_can_be_used_as_well():
    text = re.sub(r'^#(?! )', '', template(), flags=re.MULTILINE).replace('#      "', '      "')
    caller = ROOT._replace(home_of=lambda name: f'/home/{name}')
    program = settings(text, caller).programs[0]
    assert program.environment == (('OMP_NUM_THREADS', '1'), ('TITLE', 'two words'))
    assert program.user == 'nobody'


def test_it_fits_a_terminal():
    assert max(map(len, template().splitlines())) <= 85
    assert template().isascii()
