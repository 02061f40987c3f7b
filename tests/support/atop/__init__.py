"""atopgpud, its clients and what they are told."""
