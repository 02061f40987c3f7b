"""What a page has cost Chromium's main thread, from a trace of Chromium's own."""

from __future__ import annotations

import json

CATEGORIES = ['toplevel']
"""What has to be traced."""

_MAIN_THREAD = 'CrRendererMain'
_TASK = 'ThreadControllerImpl::RunTask'
_MICRO = 1e-6


def tasks_of(trace: bytes) -> list[float]:
    """Return the seconds of CPU of each task of the busiest page's main thread: while one runs there is no new frame.

    :param trace: As Chromium writes it, with CATEGORIES.
    """
    events = json.loads(trace)['traceEvents']
    tasks: dict[tuple[int, int], list[float]] = {
        (event['pid'], event['tid']): []
        for event in events
        if event['name'] == 'thread_name' and event['args']['name'] == _MAIN_THREAD
    }
    for event in events:
        thread = event['pid'], event['tid']
        if event['name'] == _TASK and 'tdur' in event and thread in tasks:
            tasks[thread].append(event['tdur'] * _MICRO)
    return max(tasks.values(), key=sum, default=[])
