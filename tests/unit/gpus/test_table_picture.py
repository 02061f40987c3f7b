"""The picture of the table that the documentation shows."""

from __future__ import annotations

import re
from xml.etree import ElementTree as ET

from gpu_tracker.gpus.table import table_text
from support.gpus.example_gpus import GPUS, NOW, user_name
from support.gpus.table_picture import COLUMNS, PICTURE, picture


def test_the_picture_is_the_one_that_would_be_drawn_now():
    assert PICTURE.read_text(encoding='utf-8') == picture(), 'run: PYTHONPATH=src:tests python -m picture_of_table'


def test_the_picture_shows_all_of_the_table_and_fetches_nothing():
    elements = list(ET.fromstring(picture()).iter())  # noqa: S314 - it was drawn here
    drawn = [element.text for element in elements if element.tag.endswith('}text')]
    table = table_text(GPUS, width=COLUMNS, now=NOW, user_name=user_name)
    assert ''.join(drawn).replace(' ', '') == ''.join(f'$ gpu-tracker gpus {table}'.split())
    assert re.findall(r'https?:[^"]*', picture()) == ['http://www.w3.org/2000/svg']
