"""Asks all hosts again and again, at once and under one deadline."""
