"""The GPU statistics daemon that atop reads."""
