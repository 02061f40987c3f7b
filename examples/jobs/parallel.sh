#!/bin/sh
# One report of all jobs that GNU parallel starts, one for each line of its standard input:
#
#   ls *.fastq | sh examples/jobs/parallel.sh python align.py
#
# The rank of a job is the number of its line, from 1.
parallel --jobs=2 gpu-tracker --job=results -- "$@"
status=$?
# Use a new folder for each run: runs in the same folder are added up.
gpu-tracker merge results -o results/report.txt
exit "$status"
