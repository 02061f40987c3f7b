#!/bin/sh
# One report of all jobs that GNU parallel starts, one for each line of its standard input:
#
#   ls *.fastq | sh examples/jobs/parallel.sh python align.py
#
# The rank of a job is its number among the lines, from 1 on.
parallel --jobs=2 gpu-tracker --job=results -- "$@"
status=$?
# Give each run a folder of its own: what runs write into the same one is added up.
gpu-tracker merge results -o results/report.txt
exit "$status"
