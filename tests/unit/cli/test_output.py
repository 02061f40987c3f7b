from __future__ import annotations

import io
import sys

import pytest

from gpu_tracker.cli import output


@pytest.mark.parametrize(('encoding', 'mark'), [('utf-8', '≥ '), ('ascii', '>='), ('latin-1', '>=')])
def test_columns_stay_aligned_without_the_character_of_lower_bounds(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], encoding: str, mark: str
) -> None:
    monkeypatch.setattr(sys, 'stdout', io.TextIOWrapper(io.BytesIO(), encoding=encoding))
    assert output.print_text('max_ram  ≥ 20 MB  40 MB\n') == 0
    assert capfd.readouterr().out == f'max_ram  {mark}20 MB  40 MB\n'
