"""The files of which the page consists: what they may hold, and what colours they have."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from gpu_tracker.fleet import page
from gpu_tracker.fleet.page.routes import index, page_files

FOLDER = Path(page.__file__).parent / 'static'
OURS = sorted(file.relative_to(FOLDER).as_posix() for file in FOLDER.iterdir() if file.is_file())
SCRIPTS = [name for name in OURS if name.endswith('.js')]
SHEETS = [name for name in OURS if name.endswith('.css')]
FILES = page_files()


def text_of(name):
    return FILES[name].body.decode()


def themes():
    light, dark = text_of('colors.css').split('@media')
    read = [dict(re.findall(r'--([a-z-]+): (#[0-9a-f]{6});', part)) for part in (light, dark)]
    return {'light': read[0], 'dark': read[0] | read[1]}


def luminance(color):
    parts = [int(color[place : place + 2], 16) / 255 for place in (1, 3, 5)]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one, other):
    """Return the contrast ratio of WCAG 2."""
    lighter, darker = sorted((luminance(one), luminance(other)), reverse=True)
    return (lighter + 0.05) / (darker + 0.05)


def test_the_measure_of_contrast_is_that_of_the_guidelines():
    assert contrast('#ffffff', '#000000') == pytest.approx(21)
    assert contrast('#777777', '#ffffff') == pytest.approx(4.478, abs=0.001)


@pytest.mark.parametrize('theme', ['light', 'dark'])
@pytest.mark.parametrize('ground', ['ground', 'card', 'raised'])
def test_text_can_be_read_in_both_themes(theme, ground):
    colors = themes()[theme]
    texts = ('text', 'muted', 'accent', 'free', 'use', 'unseen', 'claimed', 'unknown', 'broken')
    assert {
        name: contrast(colors[name], colors[ground]) for name in texts if contrast(colors[name], colors[ground]) < 4.5
    } == {}


@pytest.mark.parametrize('theme', ['light', 'dark'])
def test_notices_lines_and_controls_can_be_seen_in_both_themes(theme):
    colors = themes()[theme]
    assert contrast(colors['notice-text'], colors['notice']) >= 4.5
    for name, ground in (
        ('use', 'card'),
        ('memory', 'card'),
        ('edge', 'card'),
        ('edge', 'ground'),
        ('accent', 'ground'),
    ):
        assert contrast(colors[name], colors[ground]) >= 3, name
    for name in ('meter-use', 'meter-memory'):
        assert contrast(colors[name], colors['card']) >= 3, name


@pytest.mark.parametrize('name', OURS)
def test_no_file_of_the_page_names_another_server(name):
    addresses = set(re.findall(r'(?:https?:)?//[a-z][^\s"\'`)]*', re.sub(r'(?m)^\s*//.*$| // .*$', '', text_of(name))))
    assert addresses <= {'http://www.w3.org/2000/svg'}


@pytest.mark.parametrize('name', SCRIPTS)
def test_scripts_never_make_html_or_code_of_text(name):
    html = r'(?:inner|outer|set|Adjacent)HTML|document\.write|DOMParser|createContextualFragment|srcdoc'
    assert re.findall(rf'{html}|eval\(|new Function', text_of(name)) == []


def test_the_page_has_no_scripts_or_styles_in_its_html():
    html = text_of('index.html')
    assert re.findall(r'<script(?![^>]*\bsrc=)|<style|\sstyle=|\son[a-z]+=|javascript:', html) == []


def test_the_page_asks_for_all_modules_at_once():
    html = index(FILES, 'A & <b>').body.decode()
    named = re.findall(r'<link rel="modulepreload" href="static/([^"]+)">', html)
    assert sorted([*named, 'main.js']) == SCRIPTS
    assert html.count('A &amp; &lt;b&gt;') == 2
    assert '{' not in html


def test_every_file_that_is_named_is_there():
    named = {name for text in map(text_of, OURS) for name in re.findall(r'"static/([^"{]+)"', text)}
    named |= {
        name
        for script in SCRIPTS
        for name in re.findall(r"from '\./([^']+)'|import\('\./([^']+)'\)", text_of(script))
        for name in name
        if name
    }
    assert named <= set(FILES)
    assert set(SCRIPTS) | set(SHEETS) <= named | {'main.js'}


def test_files_know_what_they_are():
    types = {name: FILES[name].media_type.partition(';')[0] for name in FILES}
    assert {types[name] for name in SCRIPTS} == {'text/javascript'}
    assert {types[name] for name in SHEETS} == {'text/css'}
    assert types['uplot/LICENSE'] == types['uplot/README.md'] == 'text/plain'
    assert len({file.etag for file in FILES.values()}) == len(FILES)


def test_the_chart_is_the_version_that_is_noted():
    assert 'uPlot 1.6.32' in text_of('uplot/README.md')
    assert text_of('uplot/uPlot.esm.js').startswith('/**\n* Copyright (c) ')
    assert 'MIT License' in text_of('uplot/LICENSE')
