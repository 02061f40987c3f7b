"""What a run used, as data, and the text, JSON and CSV that are made of it."""
