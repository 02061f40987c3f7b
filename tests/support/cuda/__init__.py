"""Stand-ins for the CUDA probe, and programs, reports and files for it."""
