"""The report of one or several recordings: one page that needs nothing beside it, no network and no server."""
