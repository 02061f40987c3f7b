"""A second vendor of GPUs, which adds itself to a copy of the package as a real one would: one folder and one line."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import gpu_tracker

if TYPE_CHECKING:
    from collections.abc import Sequence

_LINE = "    'nvidia': _opener('gpu_tracker.gpus.nvidia'),\n"
_WITH_ANOTHER = f"{_LINE}    'made_up': _opener('gpu_tracker.gpus.made_up'),\n"
NAME = 'made_up'


class PackageWithTwoVendors:
    """A copy of gpu_tracker that has the made-up vendor too; its GPUs are what ``write`` says.

    :param folder: Where the copy stands, which PYTHONPATH has to name.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        package = folder / 'gpu_tracker'
        shutil.copytree(Path(gpu_tracker.__file__).parent, package, ignore=shutil.ignore_patterns('__pycache__'))
        self._vendor = package / 'gpus' / NAME
        self._vendor.mkdir()
        shutil.copy(Path(__file__).with_name('backend.py'), self._vendor / '__init__.py')
        table = package / 'gpus' / 'opening.py'
        text = table.read_text()
        assert text.count(_LINE) == 1, 'the table of vendors has another form'
        table.write_text(text.replace(_LINE, _WITH_ANOTHER))

    def write(self, gpus: Sequence[dict[str, Any]] | str) -> None:
        """Replace the GPUs: fields of ``gpus.model.Gpu`` and GpuReading, processes as lists of pid and memory.

        :param gpus: ``'broken'``: the driver is there and does not work.
        """
        new = self._vendor / 'new.json'
        new.write_text(json.dumps(gpus))
        new.rename(self._vendor / 'state.json')

    @property
    def reads(self) -> int:
        """How many readings of a GPU there were in runs."""
        file = self._vendor / 'reads'
        return len(file.read_text()) if file.exists() else 0

    def hang(self) -> None:
        """Have readings of a run hang from now on."""
        (self._vendor / 'hang').touch()
