"""What is looked at: who holds GPUs, what their driver tells, who works at terminals."""
