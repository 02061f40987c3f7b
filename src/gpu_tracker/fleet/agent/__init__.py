"""The HTTP agent: it tells of this machine's GPUs, to dashboards, to nvgpu's masters and to Prometheus."""
