"""How the hosts are that Prometheus scrapes."""

from __future__ import annotations

import pytest

from gpu_tracker.fleet.hosts.fleet import Fleet
from gpu_tracker.fleet.hosts.report import GpuReport, HostReport
from gpu_tracker.fleet.prometheus.agents import FORGET, Agent, Reach, Roster, Target, agents, reached
from support.fleet.prometheus_samples import NODE01, NOW, gpu, sample

NODE02 = Target('gpu-tracker', 'node02:1080')
UP = Reach(None, None, is_up=True, scraped=NOW - 3)
DOWN = Reach(None, None, is_up=False)
TOLD = Agent('node01', '6.0.0', has_driver=True)
GPUS = (GpuReport(key='GPU-0', number=0, status='free'),)


class Observed:
    """A roster, its fleet, and a clock that the test turns."""

    def __init__(self) -> None:
        self.time = 1000.0
        self.fleet = Fleet((), interval=5)
        self.roster = Roster(self.fleet, 'http://prometheus:9090', lambda: self.time)

    def round(self, targets, told=None, gpus=None, now=NOW, ahead=0.0):
        """Go through a round, and return the states of all hosts."""
        self.roster.update(targets, told or {}, gpus or {}, now, ahead)
        return self.fleet.states()

    @property
    def host(self):
        """The only host."""
        (host,) = self.fleet.states()
        return host


@pytest.fixture
def seen():
    return Observed()


def test_a_host_that_tells_its_gpus_is_up(seen):
    (host,) = seen.round({NODE01: UP._replace(group='vision', interval=15.0)}, {NODE01: TOLD}, {NODE01: GPUS})
    assert host._asdict() == {
        'id': '0',
        'name': 'node01',
        'group': 'vision',
        'state': 'up',
        'error': None,
        'last_seen': NOW - 3,
        'report': HostReport('node01', 'gpu-tracker 6.0.0', GPUS, age=3.0, interval=15.0),
        'url': None,
        'clock_error': 0.0,
    }


def test_a_host_without_gpus_is_up(seen):
    (host,) = seen.round({NODE01: UP}, {NODE01: Agent(version='6.0.0', has_driver=True)})
    assert (host.name, host.state, host.report.gpus, host.last_seen) == ('node01:1080', 'up', (), NOW - 3)


def test_a_scrape_whose_moment_is_not_told_was_at_no_known_time(seen):
    (host,) = seen.round({NODE01: UP._replace(scraped=None)}, {NODE01: TOLD}, {NODE01: GPUS})
    assert (host.state, host.last_seen, host.report.age) == ('up', None, None)


def test_a_scrape_in_the_future_was_just_now(seen):
    (host,) = seen.round({NODE01: UP._replace(scraped=NOW + 0.5)}, {NODE01: TOLD}, {NODE01: GPUS})
    assert (host.last_seen, host.report.age) == (NOW, 0)


@pytest.mark.parametrize(
    ('interval', 'age', 'state'),
    [
        (1.0, 10.0, 'up'),
        (1.0, 10.5, 'stale'),
        (15.0, 45.0, 'up'),
        (15.0, 46.0, 'stale'),
        (None, 300.0, 'up'),
    ],
)
def test_a_host_that_was_not_scraped_for_long_is_stale(seen, interval, age, state):
    reach = UP._replace(scraped=NOW - age, interval=interval)
    (host,) = seen.round({NODE01: reach}, {NODE01: TOLD}, {NODE01: GPUS})
    assert (host.state, host.last_seen) == (state, NOW - age)


def test_a_host_that_dies_stays_with_its_gpus_and_when_it_was_last_seen(seen):
    seen.round({NODE01: UP}, {NODE01: TOLD}, {NODE01: GPUS})
    (host,) = seen.round({NODE01: DOWN}, now=NOW + 60)
    assert (host.name, host.state, host.error) == ('node01', 'down', 'Prometheus cannot scrape its agent')
    assert (host.last_seen, host.report.gpus) == (NOW - 3, GPUS)


def test_a_host_comes_back_as_the_same(seen):
    seen.round({NODE01: DOWN})
    (host,) = seen.round({NODE01: UP}, {NODE01: TOLD}, {NODE01: GPUS})
    assert (host.id, host.state, host.error) == ('0', 'up', None)


def test_a_host_whose_driver_hangs_is_stale_and_keeps_its_gpus(seen):
    seen.round({NODE01: UP}, {NODE01: TOLD}, {NODE01: GPUS})
    (host,) = seen.round({NODE01: UP}, {NODE01: TOLD._replace(has_driver=False)}, now=NOW + 60)
    assert (host.state, host.error) == ('stale', 'its GPU driver does not answer')
    assert (host.last_seen, host.report.gpus) == (NOW - 3, GPUS)


def test_a_host_whose_driver_has_never_answered_has_no_gpus(seen):
    (host,) = seen.round({NODE01: UP}, {NODE01: Agent(version='6.0.0', has_driver=False)})
    assert (host.state, host.last_seen, host.report.gpus) == ('stale', None, None)
    assert host.report.driver_problem == 'its GPU driver does not answer'


def test_something_else_that_is_scraped_is_told_from_an_agent(seen):
    (host,) = seen.round({NODE01: UP})
    assert (host.state, host.error) == ('down', 'Prometheus scrapes it and gets no metrics of gpu-tracker')


def test_a_host_that_was_down_before_the_dashboard_came_is_known_from_before(seen):
    seen.roster.remember({NODE01: Agent(seen=NOW - 5000)})
    seen.round({NODE01: DOWN})
    assert (seen.host.last_seen, seen.roster.blank()) == (NOW - 5000, [NODE01])
    seen.roster.recall({NODE01: Agent('node01')}, {NODE01: GPUS})
    assert (seen.host.state, seen.host.report.gpus) == ('down', GPUS)
    (host,) = seen.round({NODE01: DOWN})
    assert (host.name, host.state, host.last_seen, host.report.gpus) == ('node01', 'down', NOW - 5000, GPUS)
    assert seen.roster.blank() == []


def test_moments_are_told_by_the_clock_of_this_machine(seen):
    (host,) = seen.round({NODE01: UP}, {NODE01: TOLD}, {NODE01: GPUS}, ahead=3600.0)
    assert host.last_seen == NOW - 3 - 3600
    seen.roster.remember({NODE02: Agent(seen=NOW - 5000)})
    _, host = seen.round({NODE01: UP, NODE02: DOWN}, ahead=3600.0)
    assert (host.state, host.last_seen) == ('down', NOW - 5000 - 3600)


def test_only_of_hosts_without_gpus_is_asked_how_they_were_and_once(seen):
    seen.round({NODE01: UP, NODE02: DOWN}, {NODE01: TOLD}, {NODE01: GPUS})
    assert seen.roster.blank() == [NODE02]
    assert seen.roster.blank() == []


def test_what_was_does_not_hide_what_is(seen):
    seen.round({NODE01: UP}, {NODE01: TOLD}, {NODE01: ()})
    seen.roster.recall({}, {NODE01: GPUS, NODE02: GPUS})
    assert (seen.host.state, seen.host.report.gpus) == ('up', ())


def test_without_prometheus_all_are_down_and_were_last_seen_then(seen):
    seen.round({NODE01: UP, NODE02: UP}, dict.fromkeys([NODE01, NODE02], TOLD), dict.fromkeys([NODE01, NODE02], GPUS))
    seen.roster.failed('it is gone')
    assert [(host.state, host.error, host.last_seen) for host in seen.fleet.states()] == [
        ('down', 'it is gone', NOW - 3),
        ('down', 'it is gone', NOW - 3),
    ]


def test_a_prometheus_that_was_never_there_has_a_row_that_says_so(seen):
    seen.roster.failed('it cannot be reached')
    assert (seen.host.id, seen.host.name, seen.host.state) == ('prometheus', 'http://prometheus:9090', 'down')
    assert (seen.host.error, seen.host.last_seen) == ('it cannot be reached', None)
    (host,) = seen.round({NODE01: UP}, {NODE01: TOLD})
    assert host.id == '0'


def test_a_target_that_is_gone_stays_for_a_while(seen):
    both = {NODE01: UP, NODE02: UP}
    seen.round(both, {NODE01: TOLD, NODE02: TOLD._replace(hostname='node02')})
    seen.time += FORGET - 1
    _, host = seen.round({NODE01: UP}, {NODE01: TOLD})
    assert (host.name, host.state, host.error) == ('node02', 'down', 'it is a target of Prometheus no more')
    seen.time += 1
    assert [host.name for host in seen.round({NODE01: UP}, {NODE01: TOLD})] == ['node01']
    assert seen.roster.target('1') is None
    assert [host.id for host in seen.round(both, {NODE01: TOLD})] == ['0', '2']


def test_a_host_is_called_as_where_targets_are_listed(seen):
    (host,) = seen.round({NODE01: Reach('the big one', None, is_up=True)}, {NODE01: TOLD})
    assert host.name == 'the big one'


def test_targets_are_known_by_the_ids_of_their_hosts(seen):
    seen.round({NODE01: UP, NODE02: UP})
    assert [seen.roster.target(key) for key in ('0', '1', '2', 'prometheus')] == [NODE01, NODE02, None, None]


def test_jobs_are_found_by_what_they_export(seen):
    assert seen.roster.jobs == {'gpu-tracker'}
    seen.roster.remember({Target('before', 'a'): Agent()})
    seen.round({NODE01: UP}, {Target('now', 'a'): TOLD})
    assert seen.roster.jobs == {'gpu-tracker', 'before', 'now'}


def test_hosts_of_one_name_are_told_apart(seen):
    third = Target('gpu-tracker', 'node03:1080')
    hosts = seen.round(
        {NODE01: UP, NODE02: UP, third: Reach('the big one', None, is_up=True)},
        dict.fromkeys([NODE01, NODE02, third], TOLD._replace(hostname='gpu')),
    )
    assert [host.name for host in hosts] == ['gpu (node01:1080)', 'gpu (node02:1080)', 'the big one']


def test_hosts_that_are_listed_with_one_name_are_told_apart(seen):
    rack = Reach('rack 1', None, is_up=True)
    assert [host.name for host in seen.round({NODE01: rack, NODE02: rack})] == [
        'rack 1 (node01:1080)',
        'rack 1 (node02:1080)',
    ]


def test_targets_are_in_order_and_need_an_instance():
    samples = [
        sample(0.0, NODE02, group='vision', name='two'),
        sample(1.0, NODE01),
        sample(None, Target('gpu-tracker', 'node03:1080')),
        sample(1.0, Target('gpu-tracker', '')),
    ]
    assert list(reached(samples).items()) == [
        (NODE01, Reach(None, None, is_up=True)),
        (NODE02, Reach('two', 'vision', is_up=False)),
        (Target('gpu-tracker', 'node03:1080'), Reach(None, None, is_up=False)),
    ]


def test_targets_are_told_when_and_how_often_they_are_scraped():
    scraped, spacing = [sample(NOW - 7), sample(NOW, NODE02)], [sample(15.0), sample(None, NODE02)]
    assert reached([sample(1.0), sample(1.0, NODE02)], scraped, spacing) == {
        NODE01: Reach(None, None, is_up=True, scraped=NOW - 7, interval=15.0),
        NODE02: Reach(None, None, is_up=True, scraped=NOW, interval=None),
    }


def test_agents_tell_of_themselves():
    told = [
        sample(name_='gpu_tracker_agent_info', version='6.0.0'),
        sample(1.0, name_='gpu_tracker_driver_up'),
        sample(None, NODE02, name_='gpu_tracker_driver_up'),
        sample(1.0, NODE02, name_='something_else'),
    ]
    assert agents(told, [gpu('0')]) == {
        NODE01: Agent('node01', '6.0.0', has_driver=True),
        NODE02: Agent(),
    }


def test_agents_of_before_were_last_seen_some_time():
    assert agents([sample(NOW - 5000)], ()) == {NODE01: Agent(seen=NOW - 5000)}
