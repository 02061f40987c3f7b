"""The dashboard: a page of all hosts."""
