"""Recordings while they are written, by the sampler, and what programs write of their regions."""
