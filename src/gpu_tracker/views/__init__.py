"""Recordings and results to look at: a page, a picture, a screen of a terminal, and what notebooks show."""
