"""Track the workers of a Dask cluster, and print what they and their tasks have used."""

from distributed import Client, LocalCluster

import gpu_tracker as gput
from gpu_tracker.dask import TrackerPlugin, collect


def squares(count: int) -> int:
    """Return the sum of the first squares."""
    return sum(number * number for number in range(count))


if __name__ == '__main__':
    with LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=':0') as cluster, Client(cluster) as client:
        client.register_plugin(TrackerPlugin(job_folder='results', sleep_time=0.1))
        client.gather(client.map(squares, [1_000_000, 2_000_000, 3_000_000, 4_000_000]))
        usages = collect(client)

    for usage in sorted(usages.values(), key=lambda usage: usage.job.rank):
        print('worker', usage.job.rank, 'had', usage.max_ram.combined.total_rss, 'GB at most')
    for region in gput.load_job('results').regions:
        print(region.calls, 'calls of', region.path[0], 'took up to', round(region.max_seconds, 3), 's in one worker')
