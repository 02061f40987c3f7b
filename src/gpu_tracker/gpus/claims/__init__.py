"""Claims: who has reserved which GPUs, in files that all users of the machine can read."""
