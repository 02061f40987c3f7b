"""The whole way: three real agents, a real dashboard, a real browser."""

from __future__ import annotations

import contextlib
import signal
from dataclasses import replace
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from support.fleet.agent_program import agent
from support.fleet.dashboard_program import Dashboard
from support.fleet.page_browser import chromium, expect, host, opened, row, summary
from support.gpus.gpu_machine import GIB, Machine
from support.simulated_nvml import Gpu

if TYPE_CHECKING:
    from pathlib import Path

NAMES = ('anna', 'berta', 'carla')


def machine_with(folder: Path, gpus: list[Gpu]) -> Machine:
    folder.mkdir()
    machine = Machine(folder)
    put_in(machine, folder.name, gpus)
    return machine


def put_in(machine: Machine, name: str, gpus: list[Gpu]) -> None:
    machine.write(gpus=[replace(gpu, uuid=f'GPU-{name}-{index}') for index, gpu in enumerate(gpus)])


def test_an_agent_that_is_killed_stays_on_the_page_and_comes_back_live(tmp_path):
    free = Gpu(name='NVIDIA A100-SXM4-40GB', total=40 * GIB, util=0)
    busy = Gpu(name='NVIDIA H200', total=80 * GIB, used=60 * GIB, util=93)
    machines = {
        'anna': machine_with(tmp_path / 'anna', [free, free]),
        'berta': machine_with(tmp_path / 'berta', [busy]),
        'carla': machine_with(tmp_path / 'carla', [free, busy]),
    }
    with contextlib.ExitStack() as stack:
        agents = {name: stack.enter_context(agent(machine)) for name, machine in machines.items()}
        urls = {name: told.url for name, told in agents.items()}
        config = tmp_path / 'fleet.toml'
        hosts = ', '.join(f"{{name = '{name}', url = '{url}'}}" for name, url in urls.items())
        config.write_text(f'interval_seconds = 0.5\ndeadline_seconds = 5\nhosts = [{hosts}]\n')
        shown = stack.enter_context(Dashboard(f'--config={config}'))
        browser = stack.enter_context(chromium())
        page = stack.enter_context(opened(browser, f'http://127.0.0.1:{shown.port}/'))

        for name in NAMES:
            expect(host(page, name)).to_contain_text('up')
        # berta's memory is in use by nobody who can be seen, as one of carla's GPUs is
        expect(row(page, 'anna', '0')).to_contain_text('[ ] free')
        expect(row(page, 'berta', '0')).to_contain_text('93 %')
        expect(page.locator('#summary')).to_contain_text('3 of 3')
        figures = summary(page)
        assert [figures[name] for name in ('[ ] free', '[!] unseen')] == ['3', '2']

        put_in(machines['anna'], 'anna', [free, busy])  # live, without anybody reloading the page
        expect(row(page, 'anna', '1')).to_contain_text('93 %')

        agents['berta'].process.send_signal(signal.SIGKILL)
        expect(host(page, 'berta')).to_contain_text('down')
        expect(host(page, 'berta')).to_contain_text('connection refused')
        expect(host(page, 'berta')).to_contain_text('last seen')
        expect(row(page, 'berta', '0')).to_contain_text('93 %')  # what it was, dimmed
        expect(page.locator('#summary')).to_contain_text('2 of 3')
        assert summary(page)['[?] unknown'] == '1'

        port = urlsplit(urls['berta']).port
        stack.enter_context(agent(machines['berta'], port=port))
        expect(host(page, 'berta')).not_to_contain_text('connection refused')
        expect(host(page, 'berta')).to_contain_text('up')
        expect(page.locator('#summary')).to_contain_text('3 of 3')
