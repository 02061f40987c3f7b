"""The fleet's programs, their page, and what they talk to."""
