"""GPUs as a table for people: pure text, without I/O of its own."""
