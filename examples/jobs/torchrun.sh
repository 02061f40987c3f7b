#!/bin/sh
# One report of all ranks that torchrun starts, here on one node:
#
#   sh examples/jobs/torchrun.sh python train.py
#
# On several nodes, run torchrun with its --rdzv-... options on each node, and with a folder that the nodes share. With
# Accelerate: accelerate launch --multi_gpu --num_processes=4 --no_python gpu-tracker --job=results -- python train.py
torchrun --standalone --nproc-per-node=4 --no-python gpu-tracker --job=results -- "$@"
status=$?
# Use a new folder for each run: runs in the same folder are added up.
gpu-tracker merge results -o results/report.txt
exit "$status"
