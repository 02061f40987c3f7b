"""A recording whose run goes on, as a screen that is drawn again twice a second."""
