"""The control groups of processes: where they stand, what they allow, and how often they ran out of memory.

cgroups(7); kernel documentation, admin-guide/cgroup-v2 and cgroup-v1/memory. All of it reads files below two folders,
``/proc`` and where the groups are mounted, so that tests can write their own.
"""
