"""What results show of themselves, and the modules above them that make it.

A text or a page of a result is made by a module that imports the class of the result. So that the class imports nothing
of that, it finds the function here, by name, when somebody asks for it.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

MAKERS = {
    'usage as text': 'result.formats:as_text',
    'usage as line': 'result.formats:as_line',
    'usage of dictionary': 'result.plain:from_dictionary',
    'usage of JSON': 'result.plain:from_text',
    'usage as HTML': 'views.html:usage_html',
    'recording as file': 'recording.export:export_to',
    'recording as page': 'views.frame:ReportFrame',
    'recording as picture': 'views.plot:plot',
    'recording as HTML': 'views.html:recording_html',
    'comparison as HTML': 'views.comparison_html:comparison_html',
    'job as text': 'jobs.job_text:as_text',
    'job as HTML': 'views.job_page:job_html',
}
"""What is made -> the module and the function in it."""


def make(what: str, *arguments: object, **options: object) -> Any:  # noqa: ANN401 - as the function has it
    """Return what the function of ``what``, a key of :data:`MAKERS`, returns."""
    from importlib import import_module  # noqa: PLC0415 - most programs show nothing

    module, function = MAKERS[what].split(':')
    return getattr(import_module(f'gpu_tracker.{module}'), function)(*arguments, **options)
