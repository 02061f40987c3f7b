"""Recordings: what was used of a machine and when, one row a sample, in one file a run; written, read, and compared."""
