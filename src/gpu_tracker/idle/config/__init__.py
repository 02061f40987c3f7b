"""The configuration file: read, checked, explained."""
