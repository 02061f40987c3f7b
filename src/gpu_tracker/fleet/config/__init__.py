"""Which hosts there are, as a file tells it: nvgpu's, or TOML."""
