"""Small adapters to the operating system: files, sockets, users, systemd, and text for terminals."""
