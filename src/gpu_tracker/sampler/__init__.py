"""The sampling subprocess: ``spawn`` starts it, ``session`` is the tracker's end of it, ``process`` is what it runs."""
