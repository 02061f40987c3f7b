"""The physical GPU that a number of a process means, and the right of control groups to open GPUs."""
