"""What showing GPUs imports, and that it can do without rich."""

from __future__ import annotations

from pathlib import Path

from support.tracked_program import PACKAGE_PARENT, answer, environment

TESTS = Path(__file__).resolve().parent.parent

TABLE = """
import json, sys
from gpu_tracker.gpus.table import table_text
from support.gpus.example_gpus import GPUS, NOW, user_name

def table(color):
    return table_text(GPUS, width=80, now=NOW, user_name=user_name, color=color)

def imported(*names):
    return [name for name in names if name in sys.modules]

"""


def answer_of(text):
    return answer(text, env=environment({'PYTHONPATH': f'{PACKAGE_PARENT}:{TESTS}'}))


def test_without_rich_the_table_is_plain():
    assert answer_of(
        f"""{TABLE}
sys.modules['rich'] = None  # as where it is not installed
plain = table(color=False)
print(json.dumps([table(color=True) == plain, plain.split()[:2]]))
"""
    ) == [True, ['GPU', 'type']]


def test_rich_is_imported_for_colors_only_and_then_little_of_it():
    assert answer_of(
        f"""{TABLE}
table(color=False)
before = imported('rich')
table(color=True)
print(json.dumps([before, imported('rich', 'rich.style', 'rich.console')]))
"""
    ) == [[], ['rich', 'rich.style']]


def test_json_needs_nothing_of_the_table():
    assert (
        answer_of(
            """
import json, sys
import gpu_tracker.gpus.machine
print(json.dumps([name for name in sys.modules if name.startswith('rich') or '.display' in name]))
"""
        )
        == []
    )
