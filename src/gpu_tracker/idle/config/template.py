"""The configuration that ``--print-config`` prints: every key, explained."""

from __future__ import annotations

TEMPLATE = """\
# What runs on the GPUs of this machine while nobody uses them.
#
# Change cmd, dir and log in [process-all] below, then let the file be checked:
#   gpu-tracker idle --check -c FILE
# Keys that are commented out show their defaults. A comment stands on a line of
# its own. %(dir)s in a value stands for the dir of its section, %% for a percent
# sign.

[defaults]
# How often GPUs and terminals are checked, in seconds; at least 0.1.
interval_seconds = 10

# The keys below may stand in [gpu-NAME] and [process-NAME] sections as well; what
# is said there goes first.

# How long the GPUs have to be idle before a program is started.
#idle_before_start_seconds = 0
# How long a program may take to end once it was told to (SIGTERM), before it is
# killed (SIGKILL).
#stop_grace_seconds = 5
# How long to wait before a program that ended is started again. The time is
# doubled with each end, up to 300 s.
#restart_backoff_seconds = 1
# Whether CUDA_VISIBLE_DEVICES gets UUIDs instead of numbers. For MIG devices it
# always does.
#use_uuids = False
# From how much memory in use by others a GPU counts as busy, whoever holds it
# open: a number of megabytes (1,000,000 bytes), or off.
#busy_memory_mb = off
# From which utilization a GPU counts as busy while no program of yours runs on it:
# a percentage, or off.
#busy_utilization_percent = off


# Which GPUs are watched, and who may use them without making them busy. There may
# be several such sections; where there is none, all GPUs are watched.
[gpu-all]
# ALL, or numbers such as 0,1 as nvidia-smi gives them. 5:1 is the second MIG
# device of GPU 5.
gpus = ALL
# Programs that do not make these GPUs busy, with commas between their names.
ignore_programs = nvidia-smi


# A program that runs while its GPUs are idle. There may be several such sections.
[process-all]
# The folder to work in. ~ is the home folder of the program's user.
dir = /tmp
# The program and its arguments, quoted as in a shell; no shell is started, though.
# {gpu} is replaced by the GPUs that the program runs on.
cmd = nice -n 19 sleep infinity
# ALL, or numbers such as 0,1: the program gets all of them, once all are idle. For
# a program of its own on each GPU write a section for each.
gpus = ALL
# The file to which the output is appended. Without one the program writes where
# gpu-tracker does.
log = /dev/null
# Variables to set besides those that gpu-tracker itself has: NAME=value, quoted
# where the value has blanks. More may follow on lines with blanks in front.
#env = OMP_NUM_THREADS=1
#      "TITLE=two words"
# Whose the program is. Only root may choose another user.
#user = nobody


# Users at work.
[tty]
# True: all programs stop while somebody works at a terminal. False: nobody looks.
enabled = False
# Users who do not count, with commas between them.
whitelist =
# A user counts whose terminal was used less long ago, in seconds. Below 10 this
# cannot work well, as the kernel notes the use of a terminal only every 8 s.
idle_seconds = 300
"""
