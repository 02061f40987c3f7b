"""The figures of a result for loggers of metrics, which refuse None."""

import gpu_tracker as gput


def figures_of(usage: gput.ResourceUsage) -> dict[str, float]:
    """Return the known figures by their names."""
    named = {
        'peak_ram': usage.max_ram.combined.total_rss,
        'peak_gpu_ram': usage.max_gpu_ram.combined,
        'mean_cpu_percent': usage.cpu_utilization.combined.mean_sum_percent,
        'seconds': usage.compute_time.time,
    }
    return {name: value for name, value in named.items() if value is not None}
