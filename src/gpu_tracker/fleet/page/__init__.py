"""The page that shows a fleet in a browser, and the figures that it fetches."""
