"""GPU vendors: what a driver is asked goes through a backend, and nothing else touches a driver.

Another vendor is one folder here with ``open_backend()``, and one line in ``opening.BACKENDS``.
"""
