"""Thirty runs, each with what a good colleague would say about it (often: nothing).

KEYS OF ``facts`` (a fact that is unknown or does not apply is left out)
  command                  str    what was run
  seconds                  float  wall time of the run, s
  exit_code                int    128 + n after signal n
  termination              str    "exited", "signal 9", "out of memory", "time limit"
  batch                    str    "slurm", "kubernetes", "docker" or None (plain machine)
  ram_peak_bytes           int    peak RAM of the main program and its descendants together (on the fullest node)
  ram_is_lower_bound       bool   True: the true peak may have been higher
  machine_ram_bytes        int    RAM of the machine
  ram_allowed_bytes        int    limit of the job's memory; None if unlimited
  ram_requested_bytes      int    request, only where it differs from the limit (Kubernetes)
  cgroup_own               bool   True: the cgroup holds this run alone
  cgroup_peak_bytes        int    peak of the cgroup, file cache included
  oom_kills                int    processes of the cgroup killed for lack of memory
  swap_peak_bytes          int    peak swap used
  major_faults             int    page faults that read from disk
  cores_mean, cores_max    float  cores used
  cores_allowed            int    cores the run may use
  cores_allowed_by         str    "affinity", "quota" or "machine" (nothing restricts it)
  quota_throttled_seconds  float  s stopped by the CPU quota (summed over cores; may exceed the wall time)
  time_limit_seconds       float  time limit of the job, s
  ram_per_minute_bytes     tuple  RAM at the end of each minute
  gpus     list of dicts: index, capacity_bytes, tracked_peak_bytes (this run), device_peak_bytes (everybody),
           util_mean_percent, util_max_percent (device), own_util_mean_percent (this run; None if unknown),
           others_used (bool)
  regions  list of dicts: name, calls, seconds (all calls), ram_before_bytes (before the first call),
           ram_after_calls (bytes after each call), gpu_busy_percent (device),
           gpu_own_busy_percent (this run, where known), cores_mean
  ranks    list of dicts: rank, node, seconds (own work, without waiting), ram_peak_bytes

DISPLAY  decimal MB / GB with 3 figures; durations "96 s" (under 120 s), "21 min", "1 h 53 min".

ORDER AND JUDGEMENT (the thresholds are one colleague's; the first three of request_memory are fixed)
  out_of_memory    oom_kills > 0, and the cgroup is own or the run failed. The flag is twice the LIMIT (the need is
                   unknown, so not the peak + 15 %); no flag if RAM grows, since then no limit is enough.
  time_limit       stopped at the limit: twice the limit. Or 90 % used: time + 25 %, rounded up to 30 min.
  gpu_memory_full  device peak from 95 % of the capacity; names the others' part if others used the GPU.
  ram_grows        the later half of the calls (or minutes) still rises, at every step, by 50 MB and 5 % of the peak.
  swapped          swap from 10 % of the RAM peak.
  major_faults     100 a second or more, unless `swapped` says it already.
  gpu_unused       batch system only, and the run never had memory on the GPU.
  cpu_throttled    throttled seconds from 5 % of the wall time.
  slow_rank        from 1.25 times the median rank, and 60 s more.
  gpu_idle         25 % of the time and 60 s or more, by own use; by the device's if own use is unknown and nobody
                   else used it. Region: the one with over 60 % of the idle time; its cores if it used at most half.
  request_memory   never from a lower bound (unless the cgroup is own: then from its peak), from a run that swapped at
                   all, or from a run under 10 s. Also not from a run that failed or was stopped, while RAM grows,
                   or without a batch system or known request. Peak + 15 %, rounded up to 100 MiB, from 10 GiB on to
                   1 GiB (M, Mi, m are binary units). Said if the request is at least twice that and 1 GB more, or if
                   the peak is from 90 % of the request. A cgroup peak from 95 % of the limit is file cache: nothing.
                   Where cores_unused holds too, both flags stand in this one line.
  cores_unused     10 s or more, batch system, restricted cores; the most cores used, rounded up (0.1 tolerated), is at
                   most half of those allowed. Not after a failure, nor with gpu_idle (spare cores may feed the GPU).
  time_limit_hardly_used  success, 10 s or more, under 10 % of a limit of 1 h or more; same flag as time_limit.
"""

from dataclasses import dataclass

MIB = 2**20
GIB = 2**30


@dataclass(frozen=True)
class Situation:
    name: str
    story: str
    facts: dict
    advice: tuple[tuple[str, str], ...]


SITUATIONS = (
    # ---------------------------------------------------------------- something to say
    Situation(
        name='slurm_memory_and_cores_far_below',
        story='A single-threaded script ran with a job header copied from a larger job.',
        facts={
            'command': 'python fit.py',
            'seconds': 1840.0,
            'exit_code': 0,
            'termination': 'exited',
            'batch': 'slurm',
            'ram_peak_bytes': 548_000_000,
            'ram_is_lower_bound': False,
            'ram_allowed_bytes': 8 * GIB,
            'cgroup_own': True,
            'cgroup_peak_bytes': 611_000_000,
            'oom_kills': 0,
            'swap_peak_bytes': 0,
            'major_faults': 212,
            'cores_mean': 0.98,
            'cores_max': 1.0,
            'cores_allowed': 8,
            'cores_allowed_by': 'affinity',
            'time_limit_seconds': 14400,
        },
        advice=(
            (
                'request_memory',
                (
                    'The run used 548 MB of 8.59 GB memory and at most 1.0 of 8 cores. '
                    'Next time: --mem=700M --cpus-per-task=1'
                ),
            ),
        ),
    ),
    Situation(
        name='kubernetes_request_far_above_use',
        story='A nightly report ran in a pod that reserves 4 GiB. Its CPU quota of 2 cores fits.',
        facts={
            'command': 'python report.py',
            'seconds': 960.0,
            'exit_code': 0,
            'termination': 'exited',
            'batch': 'kubernetes',
            'ram_peak_bytes': 548_000_000,
            'ram_is_lower_bound': False,
            'ram_allowed_bytes': 8 * GIB,
            'ram_requested_bytes': 4 * GIB,
            'cgroup_own': True,
            'cgroup_peak_bytes': 733_000_000,
            'oom_kills': 0,
            'swap_peak_bytes': 0,
            'major_faults': 95,
            'cores_mean': 1.7,
            'cores_max': 2.0,
            'cores_allowed': 2,
            'cores_allowed_by': 'quota',
            'quota_throttled_seconds': 0.4,
        },
        advice=(
            ('request_memory', 'The run used 548 MB of 4.29 GB memory. Next time: resources.requests.memory: 700Mi'),
        ),
    ),
    Situation(
        name='docker_gpu_memory_full_ram_far_below',
        story="A training in a container filled the GPU's memory and kept the GPU busy. "
        "It needed a twelfth of the container's RAM.",
        facts={
            'command': 'python train.py --batch 96',
            'seconds': 7260.0,
            'exit_code': 0,
            'termination': 'exited',
            'batch': 'docker',
            'ram_peak_bytes': 5_200_000_000,
            'ram_is_lower_bound': False,
            'ram_allowed_bytes': 64 * GIB,
            'cgroup_own': True,
            'cgroup_peak_bytes': 31_400_000_000,
            'oom_kills': 0,
            'swap_peak_bytes': 0,
            'major_faults': 1_930,
            'cores_mean': 6.1,
            'cores_max': 9.8,
            'cores_allowed': 32,
            'cores_allowed_by': 'machine',
            'gpus': [
                {
                    'index': 0,
                    'capacity_bytes': 85_500_000_000,
                    'tracked_peak_bytes': 84_000_000_000,
                    'device_peak_bytes': 84_600_000_000,
                    'util_mean_percent': 97.0,
                    'util_max_percent': 100.0,
                    'own_util_mean_percent': 96.5,
                    'others_used': False,
                }
            ],
        },
        advice=(
            ('gpu_memory_full', 'GPU 0 memory reached 84.6 GB of 85.5 GB.'),
            ('request_memory', 'The run used 5.20 GB of 68.7 GB memory. Next time: --memory=5800m'),
        ),
    ),
    Situation(
        name='slurm_lower_bound_with_own_cgroup',
        story='A parallel build started thousands of short processes, so its RAM peak is a lower bound. '
        'The job step has its own cgroup, whose peak counts them all.',
        facts={
            'command': 'make -j16',
            'seconds': 3120.0,
            'exit_code': 0,
            'termination': 'exited',
            'batch': 'slurm',
            'ram_peak_bytes': 3_900_000_000,
            'ram_is_lower_bound': True,
            'ram_allowed_bytes': 32 * GIB,
            'cgroup_own': True,
            'cgroup_peak_bytes': 6_200_000_000,
            'oom_kills': 0,
            'swap_peak_bytes': 0,
            'major_faults': 840,
            'cores_mean': 14.2,
            'cores_max': 16.0,
            'cores_allowed': 16,
            'cores_allowed_by': 'affinity',
            'time_limit_seconds': 7200,
        },
        advice=(('request_memory', 'The control group used 6.20 GB of 34.4 GB memory. Next time: --mem=6800M'),),
    ),
    Situation(
        name='slurm_memory_just_enough',
        story='The simulation finished with 94 % of its memory in use. The next input may be slightly larger.',
        facts={
            'command': './simulate input.h5',
            'seconds': 9400.0,
            'exit_code': 0,
            'termination': 'exited',
            'batch': 'slurm',
            'ram_peak_bytes': 8_100_000_000,
            'ram_is_lower_bound': False,
            'ram_allowed_bytes': 8 * GIB,
            'cgroup_own': True,
            'cgroup_peak_bytes': 8_590_000_000,
            'oom_kills': 0,
            'swap_peak_bytes': 0,
            'major_faults': 3_100,
            'cores_mean': 3.9,
            'cores_max': 4.0,
            'cores_allowed': 4,
            'cores_allowed_by': 'affinity',
            'time_limit_seconds': 21600,
        },
        advice=(('request_memory', 'The run used 8.10 GB of 8.59 GB memory. Next time: --mem=8900M'),),
    ),
    Situation(
        name='slurm_out_of_memory',
        story='The kernel killed the program when the job reached its memory limit. How much it needs is unknown.',
        facts={
            'command': 'python assemble.py',
            'seconds': 312.0,
            'exit_code': 137,
            'termination': 'out of memory',
            'batch': 'slurm',
            'ram_peak_bytes': 4_270_000_000,
            'ram_is_lower_bound': False,
            'ram_allowed_bytes': 4 * GIB,
            'cgroup_own': True,
            'cgroup_peak_bytes': 4_294_967_296,
            'oom_kills': 1,
            'swap_peak_bytes': 0,
            'major_faults': 5_200,
            'cores_mean': 0.9,
            'cores_max': 1.0,
            'cores_allowed': 1,
            'cores_allowed_by': 'affinity',
            'time_limit_seconds': 3600,
        },
        advice=(
            (
                'out_of_memory',
                (
                    'The kernel killed 1 process for lack of memory at the limit of 4.29 GB. '
                    'Next time: try --mem=8G, twice the limit'
                ),
            ),
        ),
    ),
    Situation(
        name='kubernetes_leak_until_killed',
        story='Each call of step kept its results in a list, until the pod was killed. '
        'A larger limit would only delay the kill.',
        facts={
            'command': 'python worker.py',
            'seconds': 1510.0,
            'exit_code': 137,
            'termination': 'out of memory',
            'batch': 'kubernetes',
            'ram_peak_bytes': 2_130_000_000,
            'ram_is_lower_bound': False,
            'ram_allowed_bytes': 2 * GIB,
            'ram_requested_bytes': 1 * GIB,
            'cgroup_own': True,
            'cgroup_peak_bytes': 2_147_483_648,
            'oom_kills': 1,
            'swap_peak_bytes': 0,
            'major_faults': 760,
            'cores_mean': 1.0,
            'cores_max': 1.2,
            'cores_allowed': 2,
            'cores_allowed_by': 'quota',
            'quota_throttled_seconds': 0.0,
            'regions': [
                {
                    'name': 'step',
                    'calls': 12,
                    'seconds': 1440.0,
                    'ram_before_bytes': 495_000_000,
                    'ram_after_calls': tuple(620_000_000 + 125_000_000 * i for i in range(12)),
                }
            ],
        },
        advice=(
            ('out_of_memory', 'The kernel killed 1 process for lack of memory at the limit of 2.15 GB.'),
            ('ram_grows', 'RAM grew by 125 MB per call of step, over 12 calls.'),
        ),
    ),
    Situation(
        name='plain_machine_out_of_memory',
        story="On a workstation a join of two tables used up the machine's memory. "
        'The kernel killed a worker and the program failed.',
        facts={
            'command': 'python join.py',
            'seconds': 640.0,
            'exit_code': 1,
            'termination': 'exited',
            'batch': None,
            'ram_peak_bytes': 63_100_000_000,
            'ram_is_lower_bound': False,
            'machine_ram_bytes': 64 * GIB,
            'ram_allowed_bytes': None,
            'cgroup_own': False,
            'oom_kills': 1,
            'swap_peak_bytes': 0,
            'major_faults': 21_000,
            'cores_mean': 5.2,
            'cores_max': 8.0,
            'cores_allowed': 16,
            'cores_allowed_by': 'machine',
        },
        advice=(
            ('out_of_memory', "The kernel killed 1 process for lack of memory at 63.1 GB of the machine's 68.7 GB."),
        ),
    ),
    Situation(
        name='slurm_ram_grows_per_call',
        story='Training succeeded after 40 epochs, but RAM rose in every one of them. '
        'A memory request from this peak would fail for 200 epochs.',
        facts={
            'command': 'python train.py --epochs 40',
            'seconds': 5200.0,
            'exit_code': 0,
            'termination': 'exited',
            'batch': 'slurm',
            'ram_peak_bytes': 6_300_000_000,
            'ram_is_lower_bound': False,
            'ram_allowed_bytes': 16 * GIB,
            'cgroup_own': True,
            'cgroup_peak_bytes': 7_100_000_000,
            'oom_kills': 0,
            'swap_peak_bytes': 0,
            'major_faults': 1_400,
            'cores_mean': 3.6,
            'cores_max': 4.0,
            'cores_allowed': 4,
            'cores_allowed_by': 'affinity',
            'time_limit_seconds': 10800,
            'regions': [
                {
                    'name': 'load',
                    'calls': 1,
                    'seconds': 140.0,
                    'ram_before_bytes': 310_000_000,
                    'ram_after_calls': (2_040_000_000,),
                },
                {
                    'name': 'train',
                    'calls': 40,
                    'seconds': 4980.0,
                    'ram_before_bytes': 2_040_000_000,
                    'ram_after_calls': tuple(2_140_000_000 + 101_000_000 * i for i in range(40)),
                },
            ],
        },
        advice=(('ram_grows', 'RAM grew by 101 MB per call of train, over 40 calls.'),),
    ),
    Situation(
        name='docker_ram_grows_per_minute',
        story='A service without named regions ran for an hour in a container without a memory limit. '
        'Its RAM rose every minute.',
        facts={
            'command': 'python serve.py',
            'seconds': 3600.0,
            'exit_code': 0,
            'termination': 'exited',
            'batch': 'docker',
            'ram_peak_bytes': 3_960_000_000,
            'ram_is_lower_bound': False,
            'machine_ram_bytes': 64 * GIB,
            'ram_allowed_bytes': None,
            'cgroup_own': True,
            'cgroup_peak_bytes': 4_210_000_000,
            'oom_kills': 0,
            'swap_peak_bytes': 0,
            'major_faults': 380,
            'cores_mean': 1.3,
            'cores_max': 2.7,
            'cores_allowed': 16,
            'cores_allowed_by': 'machine',
            'ram_per_minute_bytes': tuple(710_000_000 + 55_000_000 * i for i in range(60)),
        },
        advice=(('ram_grows', 'RAM grew by 55.0 MB per minute, over 60 min.'),),
    ),
    Situation(
        name='shared_gpu_memory_full_by_others',
        story='On a shared server the run failed to allocate GPU memory although it held little itself. '
        "Other people's processes held most of the card.",
        facts={
            'command': 'python finetune.py',
            'seconds': 75.0,
            'exit_code': 1,
            'termination': 'exited',
            'batch': None,
            'ram_peak_bytes': 4_400_000_000,
            'ram_is_lower_bound': False,
            'machine_ram_bytes': 256 * GIB,
            'ram_allowed_bytes': None,
            'cgroup_own': False,
            'oom_kills': 0,
            'swap_peak_bytes': 0,
            'major_faults': 610,
            'cores_mean': 1.4,
            'cores_max': 6.0,
            'cores_allowed': 48,
            'cores_allowed_by': 'machine',
            'gpus': [
                {
                    'index': 0,
                    'capacity_bytes': 25_800_000_000,
                    'tracked_peak_bytes': 9_100_000_000,
                    'device_peak_bytes': 25_600_000_000,
                    'util_mean_percent': 71.0,
                    'util_max_percent': 100.0,
                    'own_util_mean_percent': None,
                    'others_used': True,
                }
            ],
        },
        advice=(('gpu_memory_full', 'GPU 0 memory reached 25.6 GB of 25.8 GB, 16.5 GB of it by others.'),),
    ),
    Situation(
        name='slurm_gpu_idle_during_load',
        story='The GPU waited while one core decoded images. '
        'The seven spare cores are no waste to cut: more loader workers would feed the GPU.',
        facts={
            'command': 'python train.py --workers 0',
            'seconds': 1000.0,
            'exit_code': 0,
            'termination': 'exited',
            'batch': 'slurm',
            'ram_peak_bytes': 21_000_000_000,
            'ram_is_lower_bound': False,
            'ram_allowed_bytes': 32 * GIB,
            'cgroup_own': True,
            'cgroup_peak_bytes': 27_500_000_000,
            'oom_kills': 0,
            'swap_peak_bytes': 0,
            'major_faults': 2_200,
            'cores_mean': 1.0,
            'cores_max': 1.4,
            'cores_allowed': 8,
            'cores_allowed_by': 'affinity',
            'time_limit_seconds': 3600,
            'gpus': [
                {
                    'index': 0,
                    'capacity_bytes': 85_500_000_000,
                    'tracked_peak_bytes': 31_000_000_000,
                    'device_peak_bytes': 31_500_000_000,
                    'util_mean_percent': 63.0,
                    'util_max_percent': 100.0,
                    'own_util_mean_percent': None,
                    'others_used': False,
                }
            ],
            'regions': [
                {'name': 'load', 'calls': 10, 'seconds': 380.0, 'gpu_busy_percent': 5.0, 'cores_mean': 1.0},
                {'name': 'train', 'calls': 10, 'seconds': 600.0, 'gpu_busy_percent': 99.0, 'cores_mean': 1.0},
            ],
        },
        advice=(('gpu_idle', 'The GPU was idle 37 % of the time, during load. load used 1.0 of 8 cores.'),),
    ),
    Situation(
        name='shared_gpu_left_unused_by_own_use',
        story="Others used the GPU too, but the run's own use is known. It scored its validation set on the CPU.",
        facts={
            'command': 'python train.py',
            'seconds': 2400.0,
            'exit_code': 0,
            'termination': 'exited',
            'batch': None,
            'ram_peak_bytes': 8_800_000_000,
            'ram_is_lower_bound': False,
            'machine_ram_bytes': 128 * GIB,
            'ram_allowed_bytes': None,
            'cgroup_own': False,
            'oom_kills': 0,
            'swap_peak_bytes': 0,
            'major_faults': 900,
            'cores_mean': 9.3,
            'cores_max': 16.0,
            'cores_allowed': 16,
            'cores_allowed_by': 'machine',
            'gpus': [
                {
                    'index': 0,
                    'capacity_bytes': 51_500_000_000,
                    'tracked_peak_bytes': 14_200_000_000,
                    'device_peak_bytes': 22_700_000_000,
                    'util_mean_percent': 58.0,
                    'util_max_percent': 100.0,
                    'own_util_mean_percent': 41.0,
                    'others_used': True,
                }
            ],
            'regions': [
                {
                    'name': 'train',
                    'calls': 5,
                    'seconds': 1000.0,
                    'gpu_busy_percent': 98.0,
                    'gpu_own_busy_percent': 95.0,
                    'cores_mean': 1.2,
                },
                {
                    'name': 'validate',
                    'calls': 5,
                    'seconds': 1400.0,
                    'gpu_busy_percent': 29.4,
                    'gpu_own_busy_percent': 2.4,
                    'cores_mean': 15.1,
                },
            ],
        },
        advice=(('gpu_idle', 'The run left the GPU unused 59 % of the time, during validate.'),),
    ),
    Situation(
        name='slurm_second_gpu_unused_and_large_request',
        story='A one-GPU program got two GPUs, 64 GiB and a day. It took 21 minutes and a fraction of the rest.',
        facts={
            'command': 'python infer.py',
            'seconds': 1260.0,
            'exit_code': 0,
            'termination': 'exited',
            'batch': 'slurm',
            'ram_peak_bytes': 5_100_000_000,
            'ram_is_lower_bound': False,
            'ram_allowed_bytes': 64 * GIB,
            'cgroup_own': True,
            'cgroup_peak_bytes': 12_900_000_000,
            'oom_kills': 0,
            'swap_peak_bytes': 0,
            'major_faults': 1_050,
            'cores_mean': 4.4,
            'cores_max': 6.2,
            'cores_allowed': 8,
            'cores_allowed_by': 'affinity',
            'time_limit_seconds': 86400,
            'gpus': [
                {
                    'index': 0,
                    'capacity_bytes': 85_500_000_000,
                    'tracked_peak_bytes': 40_300_000_000,
                    'device_peak_bytes': 40_800_000_000,
                    'util_mean_percent': 94.0,
                    'util_max_percent': 100.0,
                    'own_util_mean_percent': 93.0,
                    'others_used': False,
                },
                {
                    'index': 1,
                    'capacity_bytes': 85_500_000_000,
                    'tracked_peak_bytes': 0,
                    'device_peak_bytes': 500_000_000,
                    'util_mean_percent': 0.0,
                    'util_max_percent': 0.0,
                    'own_util_mean_percent': 0.0,
                    'others_used': False,
                },
            ],
        },
        advice=(
            ('gpu_unused', 'The run never used GPU 1. Next time: --gpus=1'),
            ('request_memory', 'The run used 5.10 GB of 68.7 GB memory. Next time: --mem=5600M'),
            ('time_limit_hardly_used', 'The run took 21 min of its limit of 24 h 00 min. Next time: --time=00:30:00'),
        ),
    ),
    Situation(
        name='kubernetes_cpu_fallback_throttled',
        story="A CPU build of the framework did not find the pod's GPU. "
        'Its 32 threads ran against a quota of 2 cores instead.',
        facts={
            'command': 'python embed.py',
            'seconds': 1800.0,
            'exit_code': 0,
            'termination': 'exited',
            'batch': 'kubernetes',
            'ram_peak_bytes': 1_600_000_000,
            'ram_is_lower_bound': False,
            'ram_allowed_bytes': 4 * GIB,
            'ram_requested_bytes': 2 * GIB,
            'cgroup_own': True,
            'cgroup_peak_bytes': 1_900_000_000,
            'oom_kills': 0,
            'swap_peak_bytes': 0,
            'major_faults': 430,
            'cores_mean': 1.95,
            'cores_max': 2.0,
            'cores_allowed': 2,
            'cores_allowed_by': 'quota',
            'quota_throttled_seconds': 412.0,
            'gpus': [
                {
                    'index': 0,
                    'capacity_bytes': 24_100_000_000,
                    'tracked_peak_bytes': 0,
                    'device_peak_bytes': 400_000_000,
                    'util_mean_percent': 0.0,
                    'util_max_percent': 0.0,
                    'own_util_mean_percent': 0.0,
                    'others_used': False,
                }
            ],
        },
        advice=(
            ('gpu_unused', 'The run never used GPU 0. Check that the program finds it, or request no GPU.'),
            (
                'cpu_throttled',
                'The CPU quota of 2 cores throttled the run for 412 s. Use 2 threads, or raise the quota.',
            ),
        ),
    ),
    Situation(
        name='slurm_swapped_heavily',
        story='The job filled its memory and moved 3.2 GB to swap, which made it slow. '
        'Its RAM peak is only what fitted, so no request follows from it.',
        facts={
            'command': 'Rscript model.R',
            'seconds': 5400.0,
            'exit_code': 0,
            'termination': 'exited',
            'batch': 'slurm',
            'ram_peak_bytes': 8_400_000_000,
            'ram_is_lower_bound': False,
            'ram_allowed_bytes': 8 * GIB,
            'cgroup_own': True,
            'cgroup_peak_bytes': 8_589_934_592,
            'oom_kills': 0,
            'swap_peak_bytes': 3_200_000_000,
            'major_faults': 1_900_000,
            'cores_mean': 0.6,
            'cores_max': 1.0,
            'cores_allowed': 1,
            'cores_allowed_by': 'affinity',
            'time_limit_seconds': 14400,
        },
        advice=(('swapped', 'The run swapped 3.20 GB. Give it more memory than 8.59 GB.'),),
    ),
    Situation(
        name='plain_machine_major_faults_without_swap',
        story="A search read a memory-mapped index larger than the machine's RAM, again and again from disk.",
        facts={
            'command': './search --index big.idx',
            'seconds': 3600.0,
            'exit_code': 0,
            'termination': 'exited',
            'batch': None,
            'ram_peak_bytes': 29_500_000_000,
            'ram_is_lower_bound': False,
            'machine_ram_bytes': 32 * GIB,
            'ram_allowed_bytes': None,
            'cgroup_own': False,
            'oom_kills': 0,
            'swap_peak_bytes': 0,
            'major_faults': 2_100_000,
            'cores_mean': 0.7,
            'cores_max': 4.0,
            'cores_allowed': 8,
            'cores_allowed_by': 'machine',
        },
        advice=(
            (
                'major_faults',
                'The run fetched 2.1 million pages from disk, 583 a second. Give it more memory for its files.',
            ),
        ),
    ),
    Situation(
        name='slurm_slow_rank_near_time_limit',
        story='Seven MPI ranks waited for rank 5, which had the densest part of the mesh. '
        'The job ended seven minutes before its limit.',
        facts={
            'command': 'srun ./flow mesh.cas',
            'seconds': 6780.0,
            'exit_code': 0,
            'termination': 'exited',
            'batch': 'slurm',
            'ram_peak_bytes': 18_200_000_000,
            'ram_is_lower_bound': False,
            'ram_allowed_bytes': 32 * GIB,
            'cgroup_own': True,
            'cgroup_peak_bytes': 19_900_000_000,
            'oom_kills': 0,
            'swap_peak_bytes': 0,
            'major_faults': 2_700,
            'cores_mean': 3.9,
            'cores_max': 4.0,
            'cores_allowed': 4,
            'cores_allowed_by': 'affinity',
            'time_limit_seconds': 7200,
            'ranks': [
                {
                    'rank': r,
                    'node': f'node0{7 + r // 4}',
                    'seconds': 6660.0 if r == 5 else 3480.0 + 6.0 * (r % 3 - 1),
                    'ram_peak_bytes': 5_200_000_000 if r == 5 else 4_400_000_000,
                }
                for r in range(8)
            ],
        },
        advice=(
            ('time_limit', 'The run took 1 h 53 min of its limit of 2 h 00 min. Next time: --time=02:30:00'),
            ('slow_rank', 'Rank 5 on node08 took 1 h 51 min, the median rank 58 min.'),
        ),
    ),
    Situation(
        name='slurm_stopped_at_time_limit_on_one_core',
        story='Slurm stopped the job after four hours; it had computed on one of its sixteen cores. '
        'The memory of an unfinished run says nothing about the need of a whole one.',
        facts={
            'command': 'python sweep.py',
            'seconds': 14400.0,
            'exit_code': 143,
            'termination': 'time limit',
            'batch': 'slurm',
            'ram_peak_bytes': 5_000_000_000,
            'ram_is_lower_bound': False,
            'ram_allowed_bytes': 32 * GIB,
            'cgroup_own': True,
            'cgroup_peak_bytes': 5_700_000_000,
            'oom_kills': 0,
            'swap_peak_bytes': 0,
            'major_faults': 820,
            'cores_mean': 1.0,
            'cores_max': 1.0,
            'cores_allowed': 16,
            'cores_allowed_by': 'affinity',
            'time_limit_seconds': 14400,
        },
        advice=(
            (
                'time_limit',
                'The run was stopped at its limit of 4 h 00 min. Next time: try --time=08:00:00, twice the limit',
            ),
            ('cores_unused', 'The run used at most 1.0 of 16 cores. Next time: --cpus-per-task=1'),
        ),
    ),
    # ---------------------------------------------------------------- nothing to say
    Situation(
        name='nothing_healthy_mpi_root_holds_more',
        story='A healthy MPI job. Rank 0 gathers the output, so it holds twice the memory and took 4 % longer.',
        facts={
            'command': 'srun ./climate',
            'seconds': 7900.0,
            'exit_code': 0,
            'termination': 'exited',
            'batch': 'slurm',
            'ram_peak_bytes': 11_500_000_000,
            'ram_is_lower_bound': False,
            'ram_allowed_bytes': 16 * GIB,
            'cgroup_own': True,
            'cgroup_peak_bytes': 12_800_000_000,
            'oom_kills': 0,
            'swap_peak_bytes': 0,
            'major_faults': 1_900,
            'cores_mean': 3.9,
            'cores_max': 4.0,
            'cores_allowed': 4,
            'cores_allowed_by': 'affinity',
            'time_limit_seconds': 14400,
            'ranks': [
                {
                    'rank': r,
                    'node': 'node03',
                    'seconds': 7820.0 if r == 0 else 7520.0,
                    'ram_peak_bytes': 4_600_000_000 if r == 0 else 2_300_000_000,
                }
                for r in range(4)
            ],
        },
        advice=(),
    ),
    Situation(
        name='nothing_run_of_three_seconds',
        story='A smoke test of 3 s in a large allocation. It tells nothing about the real run.',
        facts={
            'command': 'python train.py --dry-run',
            'seconds': 3.1,
            'exit_code': 0,
            'termination': 'exited',
            'batch': 'slurm',
            'ram_peak_bytes': 210_000_000,
            'ram_is_lower_bound': False,
            'ram_allowed_bytes': 16 * GIB,
            'cgroup_own': True,
            'cgroup_peak_bytes': 260_000_000,
            'oom_kills': 0,
            'swap_peak_bytes': 0,
            'major_faults': 190,
            'cores_mean': 0.9,
            'cores_max': 1.0,
            'cores_allowed': 8,
            'cores_allowed_by': 'affinity',
            'time_limit_seconds': 86400,
        },
        advice=(),
    ),
    Situation(
        name='nothing_memory_is_a_lower_bound',
        story='The RAM peak is a lower bound, and the run shared its cgroup with another program of the job. '
        "The real need may be anywhere up to that cgroup's peak.",
        facts={
            'command': 'bash pipeline.sh',
            'seconds': 2900.0,
            'exit_code': 0,
            'termination': 'exited',
            'batch': 'slurm',
            'ram_peak_bytes': 2_200_000_000,
            'ram_is_lower_bound': True,
            'ram_allowed_bytes': 32 * GIB,
            'cgroup_own': False,
            'cgroup_peak_bytes': 19_000_000_000,
            'oom_kills': 0,
            'swap_peak_bytes': 0,
            'major_faults': 1_200,
            'cores_mean': 5.5,
            'cores_max': 7.9,
            'cores_allowed': 8,
            'cores_allowed_by': 'affinity',
            'time_limit_seconds': 7200,
        },
        advice=(),
    ),
    Situation(
        name='nothing_lower_bound_and_cgroup_full_of_cache',
        story='The run streamed 200 GB of files, so file cache filled its own cgroup to the limit without harm. '
        "Neither the lower bound nor the cgroup's peak tells the need.",
        facts={
            'command': 'bash checksum_all.sh',
            'seconds': 4100.0,
            'exit_code': 0,
            'termination': 'exited',
            'batch': 'slurm',
            'ram_peak_bytes': 1_200_000_000,
            'ram_is_lower_bound': True,
            'ram_allowed_bytes': 8 * GIB,
            'cgroup_own': True,
            'cgroup_peak_bytes': 8_580_000_000,
            'oom_kills': 0,
            'swap_peak_bytes': 0,
            'major_faults': 4_800,
            'cores_mean': 1.6,
            'cores_max': 2.0,
            'cores_allowed': 2,
            'cores_allowed_by': 'affinity',
            'time_limit_seconds': 10800,
        },
        advice=(),
    ),
    Situation(
        name='nothing_swapped_a_little',
        story="The node moved 150 MB of the run's idle pages to swap, without any shortage in the job. "
        'That did no harm, but the RAM peak of a run that swapped is no base for a request.',
        facts={
            'command': 'python etl.py',
            'seconds': 6200.0,
            'exit_code': 0,
            'termination': 'exited',
            'batch': 'slurm',
            'ram_peak_bytes': 3_100_000_000,
            'ram_is_lower_bound': False,
            'ram_allowed_bytes': 64 * GIB,
            'cgroup_own': True,
            'cgroup_peak_bytes': 9_800_000_000,
            'oom_kills': 0,
            'swap_peak_bytes': 150_000_000,
            'major_faults': 41_000,
            'cores_mean': 3.1,
            'cores_max': 4.0,
            'cores_allowed': 4,
            'cores_allowed_by': 'affinity',
            'time_limit_seconds': 14400,
        },
        advice=(),
    ),
    Situation(
        name='nothing_gpu_used_by_others',
        story="The shared GPU was 52 % busy, partly with other people's work, and the run's own share is unknown. "
        'Nobody can say whether this run left it idle.',
        facts={
            'command': 'python train.py',
            'seconds': 3300.0,
            'exit_code': 0,
            'termination': 'exited',
            'batch': 'docker',
            'ram_peak_bytes': 6_200_000_000,
            'ram_is_lower_bound': False,
            'machine_ram_bytes': 128 * GIB,
            'ram_allowed_bytes': None,
            'cgroup_own': True,
            'cgroup_peak_bytes': 9_700_000_000,
            'oom_kills': 0,
            'swap_peak_bytes': 0,
            'major_faults': 1_100,
            'cores_mean': 1.8,
            'cores_max': 4.4,
            'cores_allowed': 32,
            'cores_allowed_by': 'machine',
            'gpus': [
                {
                    'index': 0,
                    'capacity_bytes': 51_500_000_000,
                    'tracked_peak_bytes': 12_000_000_000,
                    'device_peak_bytes': 38_400_000_000,
                    'util_mean_percent': 52.0,
                    'util_max_percent': 100.0,
                    'own_util_mean_percent': None,
                    'others_used': True,
                }
            ],
            'regions': [
                {'name': 'load', 'calls': 20, 'seconds': 1500.0, 'gpu_busy_percent': 18.0, 'cores_mean': 1.6},
                {'name': 'train', 'calls': 20, 'seconds': 1750.0, 'gpu_busy_percent': 82.0, 'cores_mean': 2.0},
            ],
        },
        advice=(),
    ),
    Situation(
        name='nothing_short_warm_up',
        story='The GPU was idle 37 % of the time, but only for the 34 s that JAX compiled, once. '
        "JAX also reserved three quarters of the GPU's memory at its start, as it always does.",
        facts={
            'command': 'python jax_train.py --steps 200',
            'seconds': 95.0,
            'exit_code': 0,
            'termination': 'exited',
            'batch': 'slurm',
            'ram_peak_bytes': 9_800_000_000,
            'ram_is_lower_bound': False,
            'ram_allowed_bytes': 16 * GIB,
            'cgroup_own': True,
            'cgroup_peak_bytes': 11_000_000_000,
            'oom_kills': 0,
            'swap_peak_bytes': 0,
            'major_faults': 2_600,
            'cores_mean': 2.9,
            'cores_max': 7.8,
            'cores_allowed': 8,
            'cores_allowed_by': 'affinity',
            'time_limit_seconds': 600,
            'gpus': [
                {
                    'index': 0,
                    'capacity_bytes': 85_500_000_000,
                    'tracked_peak_bytes': 64_100_000_000,
                    'device_peak_bytes': 64_600_000_000,
                    'util_mean_percent': 63.0,
                    'util_max_percent': 100.0,
                    'own_util_mean_percent': None,
                    'others_used': False,
                }
            ],
            'regions': [
                {'name': 'warm_up', 'calls': 1, 'seconds': 34.0, 'gpu_busy_percent': 2.0, 'cores_mean': 6.1},
                {'name': 'step', 'calls': 200, 'seconds': 61.0, 'gpu_busy_percent': 97.0, 'cores_mean': 1.1},
            ],
        },
        advice=(),
    ),
    Situation(
        name='nothing_request_about_right_ram_levels_off',
        story='4 GiB were requested where 3800M would do. RAM rose in the first six calls while a cache filled, '
        'then stayed level.',
        facts={
            'command': 'python tiles.py',
            'seconds': 2700.0,
            'exit_code': 0,
            'termination': 'exited',
            'batch': 'slurm',
            'ram_peak_bytes': 3_400_000_000,
            'ram_is_lower_bound': False,
            'ram_allowed_bytes': 4 * GIB,
            'cgroup_own': True,
            'cgroup_peak_bytes': 3_900_000_000,
            'oom_kills': 0,
            'swap_peak_bytes': 0,
            'major_faults': 700,
            'cores_mean': 1.9,
            'cores_max': 2.0,
            'cores_allowed': 2,
            'cores_allowed_by': 'affinity',
            'time_limit_seconds': 7200,
            'regions': [
                {
                    'name': 'render',
                    'calls': 20,
                    'seconds': 2640.0,
                    'ram_before_bytes': 400_000_000,
                    'ram_after_calls': tuple(900_000_000 + 400_000_000 * min(i, 6) for i in range(20)),
                }
            ],
        },
        advice=(),
    ),
    Situation(
        name='nothing_plain_machine_mostly_free',
        story='On a private workstation one core, a little memory and one of two GPUs were used. '
        'Nobody reserved the rest for this run, so nothing was wasted.',
        facts={
            'command': 'python notebook_job.py',
            'seconds': 1500.0,
            'exit_code': 0,
            'termination': 'exited',
            'batch': None,
            'ram_peak_bytes': 2_100_000_000,
            'ram_is_lower_bound': False,
            'machine_ram_bytes': 256 * GIB,
            'ram_allowed_bytes': None,
            'cgroup_own': False,
            'oom_kills': 0,
            'swap_peak_bytes': 0,
            'major_faults': 350,
            'cores_mean': 1.0,
            'cores_max': 1.0,
            'cores_allowed': 64,
            'cores_allowed_by': 'machine',
            'gpus': [
                {
                    'index': 0,
                    'capacity_bytes': 25_800_000_000,
                    'tracked_peak_bytes': 7_700_000_000,
                    'device_peak_bytes': 8_500_000_000,
                    'util_mean_percent': 88.0,
                    'util_max_percent': 100.0,
                    'own_util_mean_percent': None,
                    'others_used': False,
                },
                {
                    'index': 1,
                    'capacity_bytes': 25_800_000_000,
                    'tracked_peak_bytes': 0,
                    'device_peak_bytes': 300_000_000,
                    'util_mean_percent': 0.0,
                    'util_max_percent': 0.0,
                    'own_util_mean_percent': 0.0,
                    'others_used': False,
                },
            ],
        },
        advice=(),
    ),
    Situation(
        name='nothing_cancelled_early_by_its_owner',
        story='The owner cancelled the job after 90 s. Exit code 137 looks like lack of memory, '
        'but nothing was killed for it, and 90 s of a day-long job tell nothing of its need.',
        facts={
            'command': 'python train.py',
            'seconds': 90.0,
            'exit_code': 137,
            'termination': 'signal 9',
            'batch': 'slurm',
            'ram_peak_bytes': 900_000_000,
            'ram_is_lower_bound': False,
            'ram_allowed_bytes': 64 * GIB,
            'cgroup_own': True,
            'cgroup_peak_bytes': 1_400_000_000,
            'oom_kills': 0,
            'swap_peak_bytes': 0,
            'major_faults': 480,
            'cores_mean': 1.0,
            'cores_max': 1.0,
            'cores_allowed': 16,
            'cores_allowed_by': 'affinity',
            'time_limit_seconds': 86400,
        },
        advice=(),
    ),
    Situation(
        name='nothing_cores_busy_only_in_one_phase',
        story='The mean is 1.6 of 16 cores, but the solver phase used all of them. '
        'Fewer cores would make that phase slower.',
        facts={
            'command': './solve --threads 16',
            'seconds': 3800.0,
            'exit_code': 0,
            'termination': 'exited',
            'batch': 'slurm',
            'ram_peak_bytes': 10_400_000_000,
            'ram_is_lower_bound': False,
            'ram_allowed_bytes': 16 * GIB,
            'cgroup_own': True,
            'cgroup_peak_bytes': 11_900_000_000,
            'oom_kills': 0,
            'swap_peak_bytes': 0,
            'major_faults': 560,
            'cores_mean': 1.6,
            'cores_max': 15.8,
            'cores_allowed': 16,
            'cores_allowed_by': 'affinity',
            'time_limit_seconds': 7200,
            'regions': [
                {'name': 'read', 'calls': 1, 'seconds': 3620.0, 'cores_mean': 0.9},
                {'name': 'solve', 'calls': 1, 'seconds': 180.0, 'cores_mean': 15.6},
            ],
        },
        advice=(),
    ),
)
