"""The report in a frame."""

from __future__ import annotations

from html.parser import HTMLParser
from typing import TYPE_CHECKING

from gpu_tracker.recording.reading.recording import load
from gpu_tracker.views.report_page.page import html_page
from support.recordings import busy_rows, write_recording

if TYPE_CHECKING:
    from pathlib import Path


class Frames(HTMLParser):
    """The attributes of all elements."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))


def test_the_page_is_within_the_frame_and_nothing_of_it_beside(tmp_path: Path) -> None:
    path = write_recording(tmp_path / 'run.db', rows=busy_rows())
    with load(path) as recording:
        frame = recording.report(height=300)
        assert frame.page == html_page([recording])
    ((tag, attributes),) = Frames(frame._repr_html_()).found
    assert tag == 'iframe'
    assert attributes == {
        'srcdoc': frame.page,
        'sandbox': 'allow-scripts',
        'title': 'gpu-tracker report',
        'style': 'width:100%;height:300px;border:1px solid rgba(128,128,128,0.35)',
    }
    assert repr(frame) == f'<ReportFrame of {len(frame.page):,} characters>'
