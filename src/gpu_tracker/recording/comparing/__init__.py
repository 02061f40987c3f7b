"""Groups of runs compared, and conditions on which a comparison fails."""
