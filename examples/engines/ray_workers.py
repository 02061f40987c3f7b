"""Run the workers of a Ray job under gpu-tracker, and print how many there were and what they have used."""

import ray

import gpu_tracker as gput
import gpu_tracker.ray


@ray.remote
def squares(count: int) -> int:
    """Return the sum of the first squares."""
    return sum(number * number for number in range(count))


if __name__ == '__main__':
    runtime_env = {'py_executable': gpu_tracker.ray.py_executable('results', '--st=0.1')}
    ray.init(num_cpus=2, include_dashboard=False, runtime_env=runtime_env)
    ray.get([squares.remote(2_000_000) for _ in range(4)])
    ray.shutdown()

    job = gput.load_job('results')
    print('job', job.jobs[0], 'had', job.ranks_started, 'workers with', job.cpu_seconds, 's of CPU time')
