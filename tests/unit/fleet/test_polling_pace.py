"""How a round begins."""

from __future__ import annotations

import asyncio

from gpu_tracker.fleet.config.cluster import Cluster, ConfiguredHost
from gpu_tracker.fleet.hosts.fleet import Fleet
from gpu_tracker.fleet.polling.http_client import Answer
from gpu_tracker.fleet.polling.poller import Poller, waiting_hosts

BODY = b'{"hostname": "node", "gpus": []}'


class Client:
    """Answers all requests of a moment at once."""

    def __init__(self) -> None:
        self.requests = 0
        self.most = 0

    async def get(self, *_: object) -> Answer:
        self.requests += 1
        await asyncio.sleep(0)
        self.most, self.requests = max(self.most, self.requests), 0
        return Answer(200, 'OK', BODY)


def test_a_round_does_not_ask_all_hosts_in_one_turn_of_the_event_loop() -> None:
    cluster = Cluster(tuple(ConfiguredHost(f'http://node{number}:1080') for number in range(100)))
    poller = Poller(cluster, Fleet(waiting_hosts(cluster), interval=5.0))
    client = Client()
    asyncio.run(poller.round(client))
    assert [state.state for state in poller.fleet.states()] == ['up'] * 100
    assert client.most <= 3
