"""What is known of the hosts of a fleet: what they have reported, how they are, and their last half hour."""
