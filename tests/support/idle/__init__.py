"""The idle wing on machines of tests."""
