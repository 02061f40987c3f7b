"""Recordings that are read: opened, checked, and as samples, regions and text."""
