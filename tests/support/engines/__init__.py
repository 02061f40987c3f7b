"""Real job launchers and engines, each on a machine of its own, and the programs that they run."""
