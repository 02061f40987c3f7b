"""Which physical GPU a process' device is, what that GPU is, and the right of control groups to open GPUs."""
