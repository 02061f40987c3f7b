"""Regions: named parts of a program, written to the log of the tracker in which the program runs.

This side runs in the measured program: it imports little, costs microseconds, and never raises what is its own fault.
"""
