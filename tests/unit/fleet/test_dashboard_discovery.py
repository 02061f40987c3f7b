"""The agents as targets for Prometheus."""

from __future__ import annotations

from gpu_tracker.fleet.config.cluster import Cluster, ConfiguredHost, Token
from gpu_tracker.fleet.dashboard.polled import targets
from gpu_tracker.fleet.hosts.report import HostReport
from gpu_tracker.fleet.polling.poller import waiting_hosts


def test_hosts_with_the_same_labels_stand_together():
    cluster = Cluster(
        (
            ConfiguredHost(None),
            ConfiguredHost('http://node02:1080'),
            ConfiguredHost('https://node03', token=Token('s3cret')),
            ConfiguredHost('http://[::1]', 'here', 'a "group"'),
            ConfiguredHost('http://node04:80'),
        )
    )
    assert targets(cluster, waiting_hosts(cluster)) == [
        {'targets': ['node02:1080', 'node04:80'], 'labels': {'__scheme__': 'http'}},
        {'targets': ['node03:443'], 'labels': {'__scheme__': 'https'}},
        {'targets': ['[::1]:80'], 'labels': {'__scheme__': 'http', 'group': 'a "group"', 'name': 'here'}},
    ]


def test_agents_of_nvgpu_have_no_metrics():
    cluster = Cluster((ConfiguredHost('http://old'), ConfiguredHost('http://new')))
    old, new = waiting_hosts(cluster)
    states = [
        old.reported(HostReport('old', 'nvgpu', ()), 1.0).failed('gone'),
        new.reported(HostReport('new', 'gpu-tracker 6.0.0', ()), 1.0),
    ]
    assert targets(cluster, states) == [{'targets': ['new:80'], 'labels': {'__scheme__': 'http'}}]


def test_nobody():
    cluster = Cluster((ConfiguredHost(None),))
    assert targets(cluster, waiting_hosts(cluster)) == []
