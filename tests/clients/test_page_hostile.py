"""Agents whose strings attack whoever looks at them."""

from __future__ import annotations

import json

from gpu_tracker.fleet.hosts.report import parse_report
from support.fleet.page_browser import PHONE, expect, host, opened, row
from support.fleet.page_hosts import busy_gpu, up
from support.fleet.page_server import PageServer

IMAGE = '<img src=x onerror="alert(1);window.attacked=1">'
SCRIPT = '"><script>alert(1);window.attacked=1</script>'
HANDLER = "' autofocus onfocus=alert(1) x='"
LINK = 'javascript:alert(1)//http://evil.example/'
STYLE = '</style><style>*{display:none}</style>url(http://evil.example/x)'
OVERRIDE = 'abc\u202etxt.exe\u2066\u200b\x1b[31m\x07\u0000'
ARABIC = '\u0645\u0636\u064a\u0641'
LONG = 'x' * 10_000
ATTACKS = (IMAGE, SCRIPT, HANDLER, LINK, STYLE, OVERRIDE, ARABIC, LONG, '__proto__', 'constructor', '\ud800', '')


def hostile_host(number, text):
    """Return a host all of whose strings are ``text``, as it comes out of what reads an agent's answer."""
    job = {
        'pid': 1,
        'user': text,
        'command': text,
        'program': text,
        'started': 1e300,
        'memory_bytes': 2**62,
        'computes': True,
    }
    claim = {'user': text, 'user_id': 0, 'pid': 1, 'command': text, 'expires': 1e300, 'made': -1}
    device = {'index': 0, 'uuid': text, 'type': text, 'status': text, 'processes': [job], 'claim': claim}
    usual = {
        'index': 2**60,
        'pci_bus_id': text,
        'memory_total_bytes': 2**62,
        'memory_used_bytes': 2**63,
        'power_watts': 1e308,
    }
    gpus = [
        device | usual,
        device | {'mig_devices': [device], 'status': 'split'},
        {'index': None, 'problem': text, 'status': 'unreadable'},
    ]
    answer = {
        'hostname': text or '?',
        'driver_problem': text,
        'claims_problem': text,
        'agent_version': text,
        'gpus': gpus,
    }
    report = parse_report(json.dumps(answer).encode())
    return up(str(number), text, group=text)._replace(report=report, error=report.driver_problem)


def test_nothing_that_an_agent_says_is_executed(browser):
    hosts = [hostile_host(number, text) for number, text in enumerate(ATTACKS)]
    with PageServer(hosts) as server, opened(browser, server.url) as page:
        expect(page.locator('.host')).to_have_count(len(ATTACKS))
        for card in page.locator('.host').all():
            card.scroll_into_view_if_needed()
            card.locator('tbody tr').first.wait_for()
            assert card.locator('img, script, style, iframe, a, [onerror], [onfocus], [autofocus]').count() == 0
        for scheme in ('down', 'stale'):
            server.put(*(each._replace(state=scheme, last_seen=1e300) for each in hosts))
            expect(page.locator(f'.host[data-state={scheme}]')).to_have_count(len(ATTACKS))
        page.get_by_label('Compact').check()
        page.evaluate('scrollTo(0, 0)')
        expect(page.locator('.notes .note').first).to_be_visible()
        assert page.evaluate('window.attacked') is None
        assert page.evaluate("Object.prototype.hasOwnProperty('0')") is False


def test_strings_from_agents_are_shown_as_text_and_break_no_layout(browser):
    hosts = [hostile_host(number, text) for number, text in enumerate(ATTACKS)]
    for size in (PHONE, {'width': 1440, 'height': 900}):
        with PageServer(hosts) as server, opened(browser, server.url, viewport=size) as page:
            expect(page.locator('.host')).to_have_count(len(ATTACKS))
            assert page.locator('.host h3').filter(has_text=IMAGE).count() == 1
            assert page.evaluate('document.documentElement.scrollWidth') == size['width']
            heights = page.locator('.host').evaluate_all('hosts => hosts.map((host) => host.offsetHeight)')
            assert max(heights) - min(heights) <= 2
            names = page.locator('.host h3 bdi').all_inner_texts()
            assert 'abc?txt.exe???[31m??' in names
            assert max(map(len, names)) == 301


def test_the_dialog_shows_hostile_strings_as_text(browser):
    hosts = [hostile_host(0, SCRIPT), hostile_host(1, LONG)]
    with PageServer(hosts) as server, opened(browser, server.url) as page:
        for number in range(2):
            page.locator(f"[data-host='{number}'] tbody tr").first.locator('.open').click()
            dialog = page.locator('dialog')
            expect(dialog).to_be_visible()
            expect(dialog.locator('.command').first).to_contain_text(('x' * 3000) if number else SCRIPT)
            assert dialog.evaluate('dialog => dialog.scrollWidth - dialog.clientWidth') == 0
            assert dialog.locator('script').count() == 0
            page.keyboard.press('Escape')


def test_filters_offer_hostile_names_as_text(browser):
    with (
        PageServer([hostile_host(0, IMAGE), up('1', 'node', busy_gpu(0))]) as server,
        opened(browser, server.url) as page,
    ):
        page.locator('select[name=user]').select_option(IMAGE)
        expect(page.locator('.host')).to_have_count(1)
        page.reload()
        expect(page.locator('.host')).to_have_count(1)
        assert page.locator('select[name=user]').input_value() == IMAGE
        page.goto(f'{server.url}/#user={SCRIPT}&q={IMAGE}')
        expect(page.get_by_text('No host matches.')).to_be_visible()


def test_the_browser_would_refuse_code_that_got_in_all_the_same(browser):
    refused = (
        'Executing inline',
        'Refused to',
        'Loading the',
        'Applying inline',
        'Connecting to',
        'Fetch API cannot',
        'Content',
    )
    with PageServer([up('0', 'node', busy_gpu(0))]) as server, opened(browser, server.url, excused=refused) as page:
        row(page, 'node', '0').wait_for()
        page.evaluate("""() => {
          const script = document.createElement('script');
          script.textContent = 'window.attacked = 1';
          const image = document.createElement('p');
          image.innerHTML = '<img src="data:," onerror="window.attacked = 1"><i style="color: red" id="styled"></i>';
          document.body.append(script, image);
        }""")
        assert page.evaluate("fetch('http://127.0.0.1:9/').then(() => 'sent', () => 'refused')") == 'refused'
        assert page.evaluate('window.attacked') is None
        assert page.evaluate("getComputedStyle(document.getElementById('styled')).color") != 'rgb(255, 0, 0)'
        assert host(page, 'node').is_visible()
