"""Track the actors of a Ray job, and print what they have used."""

import ray

import gpu_tracker as gput
import gpu_tracker.ray


@ray.remote
@gpu_tracker.ray.tracked(job_folder='results', sleep_time=0.1)
class Adder:
    """Adds squares."""

    def squares(self, count: int) -> int:
        """Return the sum of the first ones."""
        with gput.region('squares'):
            return sum(number * number for number in range(count))


if __name__ == '__main__':
    ray.init(num_cpus=2, include_dashboard=False)
    adders = [Adder.remote() for _ in range(2)]
    ray.get([adder.squares.remote(1_000_000) for adder in adders])
    for usage in ray.get([adder.resource_usage.remote() for adder in adders]):
        print(usage.job.step, 'had', usage.max_ram.main.total_rss, 'GB at most')
    ray.shutdown()

    print(gput.load_job('results').regions[0].calls, 'calls of squares')
