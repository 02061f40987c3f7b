"""The full report of recordings within a notebook, in a frame of its own.

The report is a whole page with scripts and styles. A frame separates the page from the notebook. ``sandbox`` lets the
scripts run without the rights of the notebook.
"""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gpu_tracker.recording.reading.recording import Recording

HEIGHT = 640
"""Pixels: most of a notebook's window."""


class ReportFrame:
    """Displays the HTML report of several recordings in a notebook.

    :param recordings: Open recordings to show.
    :param height: Height of the frame in pixels.
    """

    def __init__(self, recordings: Sequence[Recording], height: int | None = None) -> None:
        from gpu_tracker.views.report_page.page import html_page  # noqa: PLC0415 - most notebooks show no report

        self.page = html_page(recordings)
        self._height = HEIGHT if height is None else height

    def __repr__(self) -> str:
        """Return what it is, for terminals."""
        return f'<ReportFrame of {len(self.page):,} characters>'

    def _repr_html_(self) -> str:
        """Return the frame."""
        return (
            f'<iframe srcdoc="{escape(self.page)}" sandbox="allow-scripts" title="gpu-tracker report"'
            f' style="width:100%;height:{self._height}px;border:1px solid rgba(128,128,128,0.35)"></iframe>'
        )
