"""The GPUs of many machines: the agent of each, and the dashboard of all."""
